// Package ui serves the page that shows what slipway's API answers: nodes and what they cost, pending pods and why, what has happened to a pod or
// a node. `slipway ui` serves it on the user's machine, the launcher beside its API.
//
// The page is built from the TypeScript sources in page/ into dist/, which is committed and embedded, so that a build needs Go alone: `make ui`
// builds it again, `make ui-check` compares. The page loads nothing from elsewhere, and its Content-Security-Policy allows neither that nor inline
// scripts or styles. It asks for ../api/v1/, from where it stands.
package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"path"
	"time"
)

// Path is where the page is served.
const Path = "/ui/"

//go:embed dist
var dist embed.FS

// policy is the page's Content-Security-Policy: its own files and the API beside it, nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one of the page's, with its ETag.
type file struct {
	content   []byte
	tag, kind string
}

// Handler returns what serves the page below Path. It answers GET and HEAD alone, and needs no identity: the page has no data in it.
func Handler() (http.Handler, error) {
	files, err := read()
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Protect(w.Header())
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are answered", http.StatusMethodNotAllowed)
			return
		}
		f, ok := files[r.URL.Path]
		if !ok {
			http.Error(w, "there is no such file: the page is at "+Path, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("ETag", f.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	}), nil
}

// Protect sets the headers that keep the page to itself: what it may load, that no other page may frame or read it, and that the browser asks again.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
}

// read returns the page's files by the path at which they are served: no path of a request reaches a file system.
func read() (map[string]file, error) {
	entries, err := dist.ReadDir("dist")
	if err != nil {
		return nil, err
	}
	out := map[string]file{}
	for _, e := range entries {
		content, err := dist.ReadFile(path.Join("dist", e.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		name := Path + e.Name()
		if e.Name() == "index.html" {
			name = Path
		}
		out[name] = file{content: content, tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, kind: kindOf(e.Name())}
	}
	return out, nil
}

// kindOf returns the Content-Type of a file. The machine's own table of types is not asked: it differs.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}

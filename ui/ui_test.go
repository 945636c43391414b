package ui_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/ui"
)

// mostBytes bounds what a browser loads.
const mostBytes = 150 << 10

func serve(t *testing.T, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	handler, err := ui.Handler()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// The page and its files are answered with their types, and a client that has one gets it no more.
func TestFiles(t *testing.T) {
	for path, kind := range map[string]string{"/ui/": "text/html", "/ui/app.js": "text/javascript", "/ui/app.css": "text/css", "/ui/icon.svg": "image/svg+xml"} {
		got := serve(t, http.MethodGet, path)
		if got.Code != http.StatusOK || got.Body.Len() == 0 || !strings.HasPrefix(got.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %d bytes, %v", path, got.Code, got.Body.Len(), got.Header())
		}
		if again := serve(t, http.MethodGet, path, "If-None-Match", got.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s: %d for a client that has it", path, again.Code)
		}
	}
}

// Nothing but the page's files is answered, whatever a path looks like.
func TestOnlyTheFiles(t *testing.T) {
	for _, path := range []string{
		"/", "/ui", "/ui/index.html", "/ui/dist/app.js", "/ui/../ui.go", "/ui/../../etc/passwd", "/ui/%2e%2e/ui.go", "/ui/..%2fui.go", "/ui//app.js", "/ui/app.js/", "/ui/app.js%00",
	} {
		if got := serve(t, http.MethodGet, path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want %d", path, got.Code, http.StatusNotFound)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, http.MethodTrace, "PROPFIND"} {
		if got := serve(t, method, "/ui/"); got.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d, want %d", method, got.Code, http.StatusMethodNotAllowed)
		}
	}
}

// Every answer has the policy that keeps the page to its own files, refusals too.
func TestHeaders(t *testing.T) {
	for _, got := range []*httptest.ResponseRecorder{serve(t, http.MethodGet, "/ui/"), serve(t, http.MethodGet, "/ui/none"), serve(t, http.MethodPost, "/ui/")} {
		policy := got.Header().Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%d: the policy %q lacks %s", got.Code, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || got.Header().Get("X-Content-Type-Options") != "nosniff" || got.Header().Get("X-Frame-Options") != "DENY" || got.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%d: headers %v", got.Code, got.Header())
		}
	}
}

// The files load nothing from elsewhere, have nothing that the policy would stop, keep nothing in the browser, and are small.
func TestBundle(t *testing.T) {
	address := regexp.MustCompile(`(?:https?:)?//[a-zA-Z0-9][a-zA-Z0-9.-]*\.[a-z]{2,}[^"'\s)]*`)
	inline := regexp.MustCompile(`(?i)<script(?:>| [^>]*>[^<])|<style|\sstyle=|\son[a-z]+=["']|javascript:|\beval\(|new Function\(|@import|url\(|localStorage|sessionStorage|indexedDB|document\.cookie`)
	// Names of XML namespaces are no addresses.
	namespaces := []string{"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"}
	size := 0
	err := filepath.WalkDir("dist", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		size += len(content)
		text := string(content)
		for _, n := range namespaces {
			text = strings.ReplaceAll(text, n, "")
		}
		if found := append(address.FindAllString(text, -1), inline.FindAllString(text, -1)...); len(found) > 0 {
			t.Errorf("%s has %q", path, found)
		}
		return nil
	})
	if err != nil || size == 0 || size > mostBytes {
		t.Errorf("the page has %d bytes (%v), at most %d are expected", size, err, mostBytes)
	}
}

// The license of what the bundle contains is where a release collects the licenses of what a binary links.
func TestLicenses(t *testing.T) {
	text, err := os.ReadFile("LICENSE.preact")
	if err != nil || !strings.Contains(string(text), "MIT License") {
		t.Errorf("LICENSE.preact is %q (%v)", text, err)
	}
}

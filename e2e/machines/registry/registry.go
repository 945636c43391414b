// Package registry is a container registry for machines that reach no other: it has an image under every name and tag.
//
// The image is small: busybox, which waits for its end. A repository that ends in /pad-N (N a number of MiB) has that much
// ballast beside, to see what pulling costs. The registry speaks the part of the distribution specification
// (github.com/opencontainers/distribution-spec) that pulling needs. Its one goroutine is Run's server.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Config is what a registry depends on.
type Config struct {
	// Listen is the address, host:port.
	Listen string
	// Busybox is the path of a busybox that needs no library.
	Busybox string
	// BytesPerSecond limits each download; 0 means no limit.
	BytesPerSecond int64
	// Private reports which images need User and Password; nil means none.
	Private func(image string) bool
	// User and Password give access to the private images.
	User, Password string
	// Pulled is called with each manifest that is requested by name; nil means no call.
	Pulled func(Pull)
	// Downloaded is called with each layer and configuration after it was sent; nil means no call.
	Downloaded func(Download)
}

// Pull is one image that a machine begins to pull.
type Pull struct {
	// Image is the full name: registry/repository:tag, where the machine sent the name of the registry that this one
	// mirrors.
	Image string
	// At is the time.
	At time.Time
}

// Download is one blob that was sent to a machine, in whole or in part.
type Download struct {
	// Repository is its full name, as an image's without the tag.
	Repository string
	// From and To are when it began and ended.
	From, To time.Time
}

// Registry serves images.
type Registry struct {
	cfg      Config
	listener net.Listener

	mu     sync.Mutex
	images map[int]v1.Image
}

// New listens; nothing is served before Run.
func New(ctx context.Context, cfg Config) (*Registry, error) {
	if cfg.Pulled == nil {
		cfg.Pulled = func(Pull) {}
	}
	if cfg.Downloaded == nil {
		cfg.Downloaded = func(Download) {}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return &Registry{cfg: cfg, listener: listener, images: map[int]v1.Image{}}, nil
}

// Address is where it listens, host:port.
func (r *Registry) Address() string { return r.listener.Addr().String() }

// Run serves until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(r.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("registry: %w", err)
	}
	return nil
}

var (
	path    = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/([^/]+)$`)
	ballast = regexp.MustCompile(`(?:^|/)pad-(\d{1,4})$`)
)

// ServeHTTP answers a client of the distribution specification.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == "/v2/" || q.URL.Path == "/v2" {
		return
	}
	parts := path.FindStringSubmatch(q.URL.Path)
	if parts == nil || (q.Method != http.MethodGet && q.Method != http.MethodHead) {
		http.NotFound(w, q)
		return
	}
	name := fullName(q, parts[1])
	if user, password, _ := q.BasicAuth(); r.cfg.Private != nil && r.cfg.Private(name) && (user != r.cfg.User || password != r.cfg.Password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		http.Error(w, "no basic auth credentials", http.StatusUnauthorized)
		return
	}
	image, err := r.image(parts[1])
	if err == nil {
		if parts[2] == "manifests" {
			err = r.manifest(w, q, image, parts)
		} else {
			err = r.blob(w, q, image, parts)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
	}
}

// fullName returns a repository with the registry's name, which containerd sends to a mirror in parameter ns.
func fullName(q *http.Request, repository string) string {
	if ns := q.URL.Query().Get("ns"); ns != "" {
		return ns + "/" + repository
	}
	return repository
}

// image builds the image of a repository once.
func (r *Registry) image(repository string) (v1.Image, error) {
	pad := 0
	if m := ballast.FindStringSubmatch(repository); m != nil {
		pad, _ = strconv.Atoi(m[1])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if image := r.images[pad]; image != nil {
		return image, nil
	}
	image, err := newImage(r.cfg.Busybox, pad)
	if err != nil {
		return nil, err
	}
	r.images[pad] = image
	return image, nil
}

func (r *Registry) manifest(w http.ResponseWriter, q *http.Request, image v1.Image, parts []string) error {
	raw, err := image.RawManifest()
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	kind, err := image.MediaType()
	if err != nil {
		return err
	}
	separator := ":"
	if strings.HasPrefix(parts[3], "sha256:") {
		separator = "@"
		if parts[3] != digest.String() {
			return fmt.Errorf("manifest %s is unknown", parts[3])
		}
	}
	if q.Method == http.MethodGet || separator == ":" {
		r.cfg.Pulled(Pull{Image: fullName(q, parts[1]) + separator + parts[3], At: time.Now()})
	}
	w.Header().Set("Content-Type", string(kind))
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	if q.Method == http.MethodGet {
		_, err = w.Write(raw)
	}
	return err
}

func (r *Registry) blob(w http.ResponseWriter, q *http.Request, image v1.Image, parts []string) error {
	digest, err := v1.NewHash(parts[3])
	if err != nil {
		return err
	}
	layer, err := image.LayerByDigest(digest)
	if err != nil {
		return err
	}
	size, err := layer.Size()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if q.Method == http.MethodHead {
		return nil
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	begun := time.Now()
	// The client that goes away in the middle has its reason.
	_, _ = io.Copy(throttled(w, r.cfg.BytesPerSecond), content)
	r.cfg.Downloaded(Download{Repository: fullName(q, parts[1]), From: begun, To: time.Now()})
	return nil
}

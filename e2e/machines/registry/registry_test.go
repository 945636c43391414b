package registry_test

import (
	"archive/tar"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/slipway-k8s/slipway/e2e/machines/registry"
)

// A client that knows nothing of this registry pulls an image from it, whatever its name.
func TestPull(t *testing.T) {
	program := filepath.Join(t.TempDir(), "busybox")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var pulled []string
	sent := make(chan registry.Download, 100)
	r, err := registry.New(t.Context(), registry.Config{Listen: "127.0.0.1:0", Busybox: program, Pulled: func(p registry.Pull) {
		mu.Lock()
		defer mu.Unlock()
		pulled = append(pulled, p.Image)
	}, Downloaded: func(d registry.Download) { sent <- d }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for image, ballast := range map[string]int64{"some/where/app:1.2": 0, "load/pad-3:x": 3 << 20} {
		sizes := pull(t, r.Address()+"/"+image)
		if sizes["bin/busybox"] != int64(len("a program")) || sizes["pad-3"] != ballast {
			t.Errorf("%s holds %v", image, sizes)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(pulled) < 2 {
		t.Errorf("the log has %q", pulled)
	}
	// The registry tells it when the client may have gone already. The ballast is a layer of its own.
	for blobs := map[string]int{}; blobs["some/where/app"] < 1 || blobs["load/pad-3"] < 2; {
		d := <-sent
		blobs[d.Repository]++
		if d.To.Before(d.From) {
			t.Errorf("%+v ended before it began", d)
		}
	}
}

// pull returns the sizes of the image's files.
func pull(t *testing.T, image string) map[string]int64 {
	t.Helper()
	reference, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Image(reference, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(found)
	defer func() { _ = content.Close() }()
	sizes := map[string]int64{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			return sizes
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes[h.Name] = h.Size
	}
}

// What is private opens to those who know the password, under the name by which the client knows the registry.
func TestPrivate(t *testing.T) {
	program := filepath.Join(t.TempDir(), "busybox")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	var pulled []string
	r, err := registry.New(t.Context(), registry.Config{
		Listen: "127.0.0.1:0", Busybox: program, User: "AWS", Password: "secret",
		Private: func(image string) bool { return image == "mine.example.com/app" },
		Pulled:  func(p registry.Pull) { pulled = append(pulled, p.Image) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		registry, user, password string
		want                     int
	}{
		{"mine.example.com", "AWS", "secret", http.StatusOK},
		{"mine.example.com", "AWS", "wrong", http.StatusUnauthorized},
		{"mine.example.com", "", "", http.StatusUnauthorized},
		{"docker.io", "", "", http.StatusOK},
	} {
		q := httptest.NewRequest(http.MethodGet, "/v2/app/manifests/1?ns="+c.registry, nil)
		q.SetBasicAuth(c.user, c.password)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		if w.Code != c.want {
			t.Errorf("%+v: status %d", c, w.Code)
		}
	}
	if want := []string{"mine.example.com/app:1", "docker.io/app:1"}; !slices.Equal(pulled, want) {
		t.Errorf("the log has %q, want %q", pulled, want)
	}
}

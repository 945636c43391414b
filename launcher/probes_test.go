package launcher

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/slipway-k8s/slipway/launcher/launch"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/server"
)

func TestReadyz(t *testing.T) {
	probe := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	for _, synced := range []bool{false, true} {
		err := filled(&informertest.FakeInformers{Scheme: scheme.Scheme, Synced: &synced})(probe)
		if (err == nil) != synced {
			t.Errorf("caches are filled: %v, and the probe says %v", synced, err)
		}
	}
	socket := filepath.Join(t.TempDir(), "launcher.sock")
	if err := accepts(socket)(probe); err == nil {
		t.Error("ready without a socket")
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := accepts(socket)(probe); err != nil {
		t.Errorf("with a socket: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := accepts(socket)(probe); err == nil {
		t.Error("ready with a socket that nothing listens on any more")
	}
}

// An answer names the checks that fail: docs/operations.md has each of them, and no other.
func TestChecksAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for path, checks := range map[string]map[string]healthz.Checker{
		"/readyz":  readiness(&informertest.FakeInformers{}, "", &server.Peer{}),
		"/healthz": liveness(&leadership.Leadership{}, &launch.Launcher{}),
	} {
		_, rest, found := strings.Cut(string(page), "\n| `"+path+"` |")
		if !found {
			t.Fatalf("docs/operations.md has no row for %s", path)
		}
		cell, _, _ := strings.Cut(rest, " |")
		var documented []string
		for _, name := range regexp.MustCompile("\\(`([a-z]+)`\\)").FindAllStringSubmatch(cell, -1) {
			documented = append(documented, name[1])
			if checks[name[1]] == nil {
				t.Errorf("docs/operations.md has the check %s of %s, which does not exist", name[1], path)
			}
		}
		for name := range checks {
			if !slices.Contains(documented, name) {
				t.Errorf("docs/operations.md has no check %s of %s: %v", name, path, documented)
			}
		}
	}
}

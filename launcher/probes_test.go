package launcher

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
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

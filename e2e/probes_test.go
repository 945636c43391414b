package e2e_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// probe asks the launcher as the kubelet does.
func probe(t *testing.T, path string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, shared.LauncherURL(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error() // It has not begun to serve.
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func awaitReady(t *testing.T) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		status, text := probe(t, "/readyz")
		if status == http.StatusOK {
			return
		}
		if time.Since(begin) > mostPatience {
			t.Fatalf("the launcher is not ready after %s: %d %s", mostPatience, status, text)
		}
	}
}

// A launcher whose socket nobody can connect to is not ready, and is not killed for it.
func TestLauncherIsReadyWhileItsSocketIsServedAlone(t *testing.T) {
	awaitReady(t)
	socket := filepath.Join(shared.Folder(), "launcher.sock")
	if err := os.Rename(socket, socket+".away"); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := os.Rename(socket+".away", socket); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	if status, text := probe(t, "/readyz"); status == http.StatusOK || !strings.Contains(text, "[-]socket") {
		t.Errorf("/readyz without a socket: %d %s", status, text)
	}
	if status, text := probe(t, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz without a socket: %d %s", status, text)
	}
	restore()
	awaitReady(t)
}

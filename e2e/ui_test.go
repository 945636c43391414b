package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/testbed"
	"github.com/slipway-k8s/slipway/launcher/webapi"
)

// page starts `slipway ui` on the sandbox's launcher, with an administrator's kubeconfig, and returns the URL that the command prints, without
// the page's path.
func (w *world) page() string {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(testbed.BinDir(".."), "slipway"), "ui", "--kubeconfig", w.KubeconfigPath(), "--api", strings.TrimSuffix(w.LauncherURL("/api/"), "/api/"))
	cmd.Stderr = w.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // The context has killed it.
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text()); url != "" {
			return url
		}
	}
	w.t.Fatalf("slipway ui printed no URL: %v", lines.Err())
	return ""
}

// fetched returns the status, the body and the header of an answer of the page's server.
func (w *world) fetched(url string) (int, string, http.Header) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(body), answer.Header
}

// `slipway ui` serves the page, and the page's questions reach the launcher with the identity of the kubeconfig.
func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "page")
	w.pool("page", nil)
	w.deployment("web", 2, w.podSpec("100m", "64Mi", nil))
	w.awaitRunning(2)
	url := w.page()
	status, body, header := w.fetched(url + "/")
	if status != http.StatusOK || !strings.Contains(body, `<script src="app.js"`) || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page is %d %v:\n%s", status, header, body)
	}
	if status, body, _ := w.fetched(url + "/ui/app.js"); status != http.StatusOK || len(body) < 1000 {
		t.Errorf("the page's script is %d, %d bytes", status, len(body))
	}
	pod := w.pods()[0].Object
	var nodes webapi.Nodes
	status, body, header = w.fetched(url + "/api/v1/nodes")
	if err := json.Unmarshal([]byte(body), &nodes); err != nil || status != http.StatusOK || header.Get("Etag") == "" {
		t.Fatalf("the nodes are %d %v (%v):\n%s", status, header, err, body)
	}
	found := false
	for _, n := range nodes.Nodes {
		found = found || n.Node == pod.Spec.NodeName && n.Price > 0
	}
	if !found {
		t.Errorf("the node of the pod, %s, is not among %+v", pod.Spec.NodeName, nodes.Nodes)
	}
	if status, body, _ := w.fetched(url + "/api/v1/namespaces/" + w.name + "/pods/" + pod.Name); status != http.StatusOK || !strings.Contains(body, `"timeline":[{`) {
		t.Errorf("the pod is %d:\n%s", status, body)
	}
	if status, body, _ := w.fetched(url + "/metrics"); status != http.StatusNotFound {
		t.Errorf("a path that is not the page's is answered with %d:\n%s", status, body)
	}
}

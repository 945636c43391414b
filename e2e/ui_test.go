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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/testbed"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/launcher/webapi"
	"github.com/slipway-k8s/slipway/ui"
)

// page starts `slipway ui` on the sandbox's launcher, with an administrator's kubeconfig, and returns the URL that the command prints, without
// the page's path.
func (w *world) page() string {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(testbed.BinDir(".."), "slipway"), "ui", "--kubeconfig", w.KubeconfigPath(), "--api", strings.TrimSuffix(w.LauncherURL(ui.Path), ui.Path))
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

// sees fails the test unless a URL is answered with a status and parts of a body.
func (w *world) sees(url string, status int, parts ...string) {
	w.t.Helper()
	got, body, header := w.fetched(url)
	if got != status || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		w.t.Errorf("%s: %d, want %d; header %v", url, got, status, header)
	}
	for _, part := range parts {
		if !strings.Contains(body, part) {
			w.t.Errorf("%s lacks %s:\n%s", url, part, body)
		}
	}
}

// `slipway ui` serves the page, and the page's questions reach the launcher with the identity of the kubeconfig.
func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "page")
	w.pool("page", nil)
	w.deployment("web", 2, w.podSpec("100m", "64Mi", nil))
	w.awaitRunning(2)
	url := w.page()
	w.sees(url+"/", http.StatusOK, `<script src="app.js"`)
	w.sees(url+"/ui/app.js", http.StatusOK, "/api/v1/")
	w.sees(url+"/metrics", http.StatusNotFound)
	pod := w.pods()[0].Object
	w.sees(url+"/api/v1/namespaces/"+w.name+"/pods/"+pod.Name, http.StatusOK, `"timeline":[{`)
	w.sees(url+"/api/v1/nodes/"+pod.Spec.NodeName+"/pods", http.StatusOK, `"name":"`+pod.Name+`"`)

	var nodes webapi.Nodes
	status, body, header := w.fetched(url + "/api/v1/nodes")
	if err := json.Unmarshal([]byte(body), &nodes); err != nil || status != http.StatusOK || header.Get("Etag") == "" {
		t.Fatalf("the nodes are %d %v (%v):\n%s", status, header, err, body)
	}
	if !slices.ContainsFunc(nodes.Nodes, func(n view.NodeRow) bool { return n.Node == pod.Spec.NodeName && n.Price > 0 }) {
		t.Errorf("the node of the pod, %s, is not among %+v", pod.Spec.NodeName, nodes.Nodes)
	}
	// The launcher serves the page as well.
	if status := w.asked(nil, "", "/ui/app.js", nil); status != http.StatusOK {
		t.Errorf("the launcher answers for the page with %d", status)
	}
}

package e2e_test

import (
	"bufio"
	"bytes"
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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/testbed"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/launcher/webapi"
	"github.com/slipway-k8s/slipway/plugin/simulate/edits"
	"github.com/slipway-k8s/slipway/ui"
	"github.com/slipway-k8s/slipway/ui/planner"
)

// page starts `slipway ui` with an administrator's kubeconfig.
func (w *world) page() string { return w.pageOf(w.KubeconfigPath()) }

// pageOf starts `slipway ui` on the sandbox's launcher, with a kubeconfig, and returns the URL that the command prints, without the page's path.
func (w *world) pageOf(kubeconfig string) string {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(testbed.BinDir(".."), "slipway"), "ui", "--kubeconfig", kubeconfig, "--api", strings.TrimSuffix(w.LauncherURL(ui.Path), ui.Path))
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

// editsOf returns the planner's edits for the pods of a workload; none while they are not known.
func (w *world) editsOf(url, owner string) []edits.Edit {
	w.t.Helper()
	status, body, _ := w.fetched(url + "/local/v1/edits")
	var got planner.Edits
	if err := json.Unmarshal([]byte(body), &got); status != http.StatusOK || err != nil {
		w.t.Fatalf("the edits are %d (%v): %s", status, err, body)
	}
	for _, c := range got.Classes {
		if c.Namespace == w.name && strings.Contains(c.Owner, owner) {
			return c.Edits
		}
	}
	return nil
}

// The page's edit for pods that no NodePool takes is one that makes them run; what-if plans it before, and changes nothing.
func TestPageFindsTheEditThatHelps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "edit")
	w.pool("edit", nil)
	w.deployment("web", 1, w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) { s.NodeSelector["example.com/team"] = "edit" }))
	url := w.page()
	w.await(t, "an edit that helps", func() bool {
		return slices.ContainsFunc(w.editsOf(url, "web"), func(e edits.Edit) bool {
			return e.Object == "NodePool edit" && strings.Contains(e.Text, "Add label example.com/team=edit") && e.Price > 0
		})
	})
	_, body, _ := w.fetched(url + "/local/v1/object?kind=NodePool&name=edit")
	var object planner.Object
	if err := json.Unmarshal([]byte(body), &object); err != nil || !strings.Contains(object.YAML, "name: edit") {
		t.Fatalf("the NodePool is %s (%v)", body, err)
	}
	pool := &karpv1.NodePool{}
	if err := yaml.Unmarshal([]byte(object.YAML), pool); err != nil {
		t.Fatal(err)
	}
	pool.Spec.Template.Labels["example.com/team"] = "edit"
	edited, err := yaml.Marshal(pool)
	if err != nil {
		t.Fatal(err)
	}
	got := w.whatIf(url, string(edited))
	unplaced := func(s planner.Side) bool {
		return slices.ContainsFunc(s.Unschedulable, func(c planner.Class) bool {
			return slices.ContainsFunc(c.Pods, func(p string) bool { return strings.HasPrefix(p, w.name+"/") })
		})
	}
	if !unplaced(got.Before) || unplaced(got.After) {
		t.Errorf("what if: %+v", got)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"labels":{"example.com/team":"edit"}}}}}`))
	if err := w.client.Patch(t.Context(), pool, patch); err != nil {
		t.Fatal(err)
	}
	w.awaitRunning(1)
}

// whatIf returns the planner's answer with other objects.
func (w *world) whatIf(url, objects string) planner.WhatIf {
	w.t.Helper()
	question, err := json.Marshal(planner.Question{Objects: objects})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, url+"/local/v1/whatif", bytes.NewReader(question))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var got planner.WhatIf
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || answer.StatusCode != http.StatusOK {
		w.t.Fatalf("what if: %d (%v)", answer.StatusCode, err)
	}
	return got
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
	// Its user may pause disruption: which NodePools are is known, and nothing is changed by asking.
	w.sees(url+"/local/v1/disruption", http.StatusOK, `{"name":"page","paused":false}`, `"mayChange":true`)
	w.sees(url+"/local/v1/buffers", http.StatusOK, `"since":`, `"answers":[`)
	w.sees(url+"/local/v1/none", http.StatusNotFound)
	// The launcher serves the page as well.
	if status := w.asked(nil, "", "/ui/app.js", nil); status != http.StatusOK {
		t.Errorf("the launcher answers for the page with %d", status)
	}
}

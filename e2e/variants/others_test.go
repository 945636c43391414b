package variants_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// closedByExtender is an HTTP extender. asked counts the nodes that do not exist yet about which it was asked.
type closedByExtender struct{ asked atomic.Int32 }

// ServeHTTP refuses nodes in zone us-east-1b.
func (e *closedByExtender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil || args.Nodes == nil {
		http.Error(w, "want ExtenderArgs with nodes", http.StatusBadRequest)
		return
	}
	out := extenderv1.ExtenderFilterResult{Nodes: &corev1.NodeList{}, FailedNodes: extenderv1.FailedNodesMap{}}
	for _, n := range args.Nodes.Items {
		if n.UID == "" {
			e.asked.Add(1)
		}
		if n.Labels[corev1.LabelTopologyZone] == "us-east-1b" {
			out.FailedNodes[n.Name] = "zone us-east-1b is closed"
			continue
		}
		out.Nodes.Items = append(out.Nodes.Items, n)
	}
	_ = json.NewEncoder(w).Encode(out)
}

// The scheduler of docs/scheduler.md, built with a plugin of others that closes a zone, and an HTTP extender that closes another: what is
// launched is in the third one, and as many nodes as the pods need.
func TestPluginAndExtenderOfOthers(t *testing.T) {
	binary := buildExample(t)
	extender := &closedByExtender{}
	server := httptest.NewServer(extender)
	t.Cleanup(server.Close)
	l := newLab(t, sandbox.Config{SchedulerBinary: binary, ChangeScheduler: func(config map[string]any) {
		config["extenders"] = []any{map[string]any{"urlPrefix": server.URL, "filterVerb": "filter", "enableHTTPS": false}}
		profile := config["profiles"].([]any)[0].(map[string]any)
		filter := profile["plugins"].(map[string]any)["filter"].(map[string]any)
		filter["enabled"] = append(filter["enabled"].([]any), map[string]any{"name": "ClosedZone"})
	}})
	l.deployment("web", 3, "1500m", nil)
	l.awaitRunning("web", 3)
	for _, n := range l.Recorder.Nodes() {
		if zone := n.Object.Labels[corev1.LabelTopologyZone]; zone != "us-east-1c" {
			t.Errorf("node %s is in zone %s, want us-east-1c: the others are closed", n.Object.Name, zone)
		}
	}
	if n := len(l.Recorder.Claims()); n != 3 {
		t.Errorf("%d NodeClaims for three pods that each fill a node", n)
	}
	if extender.asked.Load() == 0 {
		t.Error("the extender was not asked about nodes that do not exist yet")
	}
}

// buildExample builds the program that docs/scheduler.md shows.
func buildExample(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/scheduler.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```go\n")
	program, _, closed := strings.Cut(rest, "```")
	if !found || !closed || !strings.HasPrefix(program, "package main") {
		t.Fatal("docs/scheduler.md has no program")
	}
	source, binary := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "slipway-scheduler")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("building the program of docs/scheduler.md: %v\n%s", err, out)
	}
	return binary
}

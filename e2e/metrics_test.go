package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// launcherMetrics asks the launcher for its metrics as Prometheus does.
func (w *world) launcherMetrics() map[string]*dto.MetricFamily {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.LauncherURL("/metrics"), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		w.t.Fatalf("the launcher's metrics: %s: %s", response.Status, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return families
}

// Pods that ask for nothing of thousands of resources, two of which have one name in metrics: the launcher's metrics are served as
// before, and are not longer for it.
func TestMetricsWhateverPodsAskFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "metrics")
	w.pool("metrics", nil)
	w.deployment("web", 2, w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) {
		asked := s.Containers[0].Resources
		if asked.Limits == nil {
			asked.Limits = corev1.ResourceList{}
		}
		names := []string{"a-b", "a_b"}
		for i := range 2000 {
			names = append(names, fmt.Sprintf("zero-%d", i))
		}
		for _, name := range names {
			asked.Requests[corev1.ResourceName("x.io/"+name)], asked.Limits[corev1.ResourceName("x.io/"+name)] = resource.Quantity{}, resource.Quantity{}
		}
		s.Containers[0].Resources = asked
	}))
	w.awaitRunning(2)
	// The launcher's cache may be behind: it has the pods once it reports them as running.
	families := w.launcherMetrics()
	for begin := time.Now(); w.reportedRunning(families) < 2; families = w.launcherMetrics() {
		if time.Since(begin) > mostPatience {
			t.Fatalf("the launcher did not report within %s that the pods run", mostPatience)
		}
		time.Sleep(100 * time.Millisecond) // A metric has no watch.
	}
	shared.measured(t, "200 with %d families while pods of 2,000 such resources run", len(families))
	requested := false
	for _, name := range []string{"karpenter_nodes_total_pod_requests", "karpenter_nodes_total_pod_limits"} {
		for _, m := range families[name].GetMetric() {
			labels := labelsOf(m)
			requested = requested || labels["nodepool"] == "metrics" && labels["resource_type"] == "cpu" && m.GetGauge().GetValue() >= 0.1
			if strings.HasPrefix(labels["resource_type"], "x.io/") {
				t.Fatalf("%s has a series of %s, of which no node has any", name, labels["resource_type"])
			}
		}
	}
	if !requested {
		t.Error("what the pods do ask for is not reported")
	}
}

// reportedRunning counts the test's pods that metrics say are running.
func (w *world) reportedRunning(families map[string]*dto.MetricFamily) int {
	running := 0
	for _, m := range families["karpenter_pods_state"].GetMetric() {
		if labels := labelsOf(m); labels["namespace"] == w.name && labels["phase"] == "Running" {
			running++
		}
	}
	return running
}

func labelsOf(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

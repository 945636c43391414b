package launcher

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/internal/described"
)

// The dashboards of Karpenter's documentation (karpenter-provider-aws v1.13, website/content/en/docs/getting-started/
// getting-started-with-karpenter/karpenter-{capacity,performance}-dashboard.json) query these metrics of the launcher, by these labels, and
// expect these types. Labels that Prometheus adds, such as job, are left out.
func TestKarpentersDashboardsFindTheirMetrics(t *testing.T) {
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		kind   string
		labels []string
	}
	have := map[string]row{}
	for _, line := range described.Section(string(page), "## The launcher") {
		cells := strings.Split(line, " | ")
		if len(cells) < 3 {
			continue
		}
		have[strings.Trim(cells[0], "| `")] = row{strings.TrimSpace(cells[1]), strings.Split(strings.TrimSpace(cells[2]), ", ")}
	}
	ofNode := "resource_type node_name arch capacity_type instance_type nodepool zone"
	for name, want := range map[string]string{
		"karpenter_nodes_allocatable":                    "gauge " + ofNode,
		"karpenter_nodes_total_daemon_requests":          "gauge " + ofNode,
		"karpenter_nodes_total_pod_requests":             "gauge " + ofNode,
		"karpenter_nodepools_usage":                      "gauge resource_type nodepool",
		"karpenter_nodepools_limit":                      "gauge resource_type nodepool",
		"karpenter_nodes_created_total":                  "counter nodepool",
		"karpenter_nodes_terminated_total":               "counter nodepool",
		"karpenter_nodeclaims_disrupted_total":           "counter nodepool",
		"karpenter_voluntary_disruption_decisions_total": "counter consolidation_type decision",
		"karpenter_voluntary_disruption_eligible_nodes":  "gauge reason",
		"karpenter_pods_state":                           "gauge phase arch capacity_type instance_type nodepool namespace node zone",
		"karpenter_nodes_termination_duration_seconds":   "summary",
		"karpenter_pods_startup_duration_seconds":        "summary",
	} {
		got, words := have[name], strings.Fields(want)
		if got.kind != words[0] {
			t.Errorf("%s is %q, want a %s", name, got.kind, words[0])
		}
		for _, label := range words[1:] {
			if !slices.Contains(got.labels, label) {
				t.Errorf("%s has no label %s", name, label)
			}
		}
	}
}

package plugin

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/plugin/hooks"
	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
	"github.com/slipway-k8s/slipway/plugin/incremental/spread"
)

// Hooks that trip and entry points that panic have their series from the start: an alert on their increase sees the first one.
func TestFailuresHaveSeriesFromTheStart(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	if _, err := newMetrics(registry); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("guard.go")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"slipway_hook_trips_total": {hooks.FailureHandler, affinity.Name, spread.Name, hooks.NextPod, hooks.SchedulePod}}
	for _, point := range regexp.MustCompile(`point\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		want["slipway_plugin_panics_total"] = append(want["slipway_plugin_panics_total"], point[1])
	}
	slices.Sort(want["slipway_plugin_panics_total"])
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if name := f.GetName(); want[name] != nil && s.GetCounter().GetValue() == 0 {
				got[name] = append(got[name], s.GetLabel()[0].GetValue())
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

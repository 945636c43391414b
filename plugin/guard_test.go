package plugin

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
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

// A panic that is recovered is logged with its cause, also where the answer to the launcher has it: nothing else says what went wrong.
func TestRecoveredPanicsAreLogged(t *testing.T) {
	m, err := newMetrics(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	// None of these has what it works with.
	for point, run := range map[string]func(ctx context.Context) string{
		pointConsolidate: func(ctx context.Context) string {
			return (&consolidator{consolidatorConfig: consolidatorConfig{metrics: m}}).safe(ctx, decision{}).GetMessage()
		},
		pointNodeBusy: func(ctx context.Context) string {
			return (&busyView{metrics: m}).safe(ctx, &api.NodeBusy{}).GetReason()
		},
		pointPlan: func(ctx context.Context) string {
			_, err := (&provisioner{guard: &guard{metrics: m}}).attempt(ctx, nil, purpose{})
			return err.Error()
		},
	} {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		if answer := run(klog.NewContext(t.Context(), logger)); !strings.HasPrefix(answer, "panic: ") {
			t.Errorf("%s: the answer is %q", point, answer)
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "panicked") || !strings.Contains(lines[0], `"point"="`+point+`"`) || !strings.Contains(lines[0], "nil pointer") {
			t.Errorf("%s: logged %q, want one line with the cause", point, lines)
		}
	}
}

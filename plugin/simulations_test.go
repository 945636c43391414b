package plugin

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Planning is exported while it goes on and when it has ended, under the names by which Karpenter's users know it.
func TestSimulationsAreExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		m, err := newMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		expect := func(depth, seconds string) {
			t.Helper()
			want := `# HELP karpenter_scheduler_queue_depth Pods that are being planned now.
# TYPE karpenter_scheduler_queue_depth gauge
karpenter_scheduler_queue_depth{controller="disruption"} 0
karpenter_scheduler_queue_depth{controller="provisioner"} ` + depth + `
# HELP karpenter_scheduler_unfinished_work_seconds Seconds since planning that goes on began.
# TYPE karpenter_scheduler_unfinished_work_seconds gauge
karpenter_scheduler_unfinished_work_seconds{controller="disruption"} 0
karpenter_scheduler_unfinished_work_seconds{controller="provisioner"} ` + seconds + "\n"
			err := testutil.GatherAndCompare(registry, strings.NewReader(want), "karpenter_scheduler_queue_depth", "karpenter_scheduler_unfinished_work_seconds")
			if err != nil {
				t.Error(err)
			}
		}
		end := m.simulations.begin(pendingPods(), 5)
		time.Sleep(2 * time.Second)
		expect("5", "2")
		end()
		expect("0", "0")
		want := "karpenter_scheduler_scheduling_duration_seconds"
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, s := range f.GetMetric() {
				h := s.GetHistogram()
				if f.GetName() != want || s.GetLabel()[0].GetValue() != controllerProvisioner {
					continue
				}
				if want = ""; h.GetSampleCount() != 1 || h.GetSampleSum() != 2 {
					t.Errorf("%d plans in %v s", h.GetSampleCount(), h.GetSampleSum())
				}
			}
		}
		if want != "" {
			t.Error("no plan was timed")
		}
	})
}

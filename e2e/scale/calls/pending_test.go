package calls_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/scale/calls"
)

func TestPendingTable(t *testing.T) {
	s := calls.Stage{
		Name: "rest", Took: 10 * time.Second, Bound: []float64{0.3, 0.1, 0.2}, SchedulerCPU: 1, SchedulerMemory: 300, LauncherMemory: 150, FileMemory: 140,
		Calls: calls.Counts{
			{Who: calls.Scheduler, Verb: "patch", Resource: "pods/status"}:           20,
			{Who: calls.Scheduler, Verb: "create", Resource: "events of Pod"}:        5,
			{Who: calls.Launcher, Verb: "create", Resource: "events of Node"}:        5,
			{Who: calls.Launcher, Verb: "get", Resource: "pods/status"}:              7,
			{Who: "kube-controller-manager", Verb: "patch", Resource: "pods/status"}: 9,
		},
	}
	if got := s.PerPod("pods/status", 10); got != 2 {
		t.Errorf("%.1f writes of status a pod, want 2", got)
	}
	got := strings.Join(strings.Fields(calls.PendingTable([]calls.Stage{s}, 10)), " ")
	if want := "| rest | 10s | 2.00 | 1.00 | 3 | 0.20 s | 0.20 s | 0.30 s | 1.0 | 0.0 | 0.100 | 450 (goal 400) | 140 |"; !strings.HasSuffix(got, want) {
		t.Errorf("got %s\nwant it to end with %s", got, want)
	}
}

package disruption_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// still is a stopped clock, for Karpenter's budgets, which read the time themselves.
type still struct {
	clock.RealClock
	now time.Time
}

// Now implements clock.Clock.
func (s still) Now() time.Time { return s.now }

// TestDisruptionsLeft runs the files of testdata/allowed:
//
//	budget nodes=N disrupted=N at=TIME [reason=REASON]
//	the NodePool's budgets as YAML
//
// and prints how many more may go; the reason is Empty where it is not said.
func TestDisruptionsLeft(t *testing.T) {
	datadriven.Walk(t, "testdata/allowed", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			var tally disruption.PoolCount
			var at string
			reason := string(karpv1.DisruptionReasonEmpty)
			d.ScanArgs(t, "nodes", &tally.Nodes)
			d.ScanArgs(t, "disrupted", &tally.Disrupted)
			d.ScanArgs(t, "at", &at)
			if d.HasArg("reason") {
				d.ScanArgs(t, "reason", &reason)
			}
			now, err := time.Parse(time.RFC3339, at)
			if err != nil {
				t.Fatal(err)
			}
			pool := &karpv1.NodePool{}
			if err := yaml.UnmarshalStrict([]byte(d.Input), &pool.Spec.Disruption.Budgets); err != nil {
				t.Fatal(err)
			}
			left, err := disruption.DisruptionsLeft(pool, tally, karpv1.DisruptionReason(reason), now)
			if err != nil {
				return fmt.Sprintf("%d: %v\n", left, err)
			}
			return strconv.Itoa(left) + "\n"
		})
	})
}

// TestAllowedAsKarpenterDoes checks that the result equals that of Karpenter's own code, where that returns no error.
func TestAllowedAsKarpenterDoes(t *testing.T) {
	start := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	for i, text := range []string{
		`null`, `[]`, `[{nodes: "1", reasons: []}]`, `[{nodes: "0", reasons: []}, {nodes: "30%", reasons: null}]`, `[{nodes: "10%"}]`, `[{nodes: "3"}, {nodes: "50%", reasons: [Empty]}]`,
		`[{nodes: "0", schedule: "0 9 * * mon-fri", duration: 8h}, {nodes: "25%"}]`,
		`[{nodes: "0", schedule: "@daily", duration: 10m, reasons: [Drifted]}]`,
		`[{nodes: "100%", schedule: "*/5 * * * *", duration: 1m}, {nodes: "1", reasons: [Underutilized, Drifted]}]`,
	} {
		pool := &karpv1.NodePool{}
		if err := yaml.UnmarshalStrict([]byte(text), &pool.Spec.Disruption.Budgets); err != nil {
			t.Fatal(err)
		}
		theirs := pool.DeepCopy()
		if theirs.Spec.Disruption.Budgets == nil { // The API server's default.
			theirs.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "10%"}}
		}
		for minute := 0; minute < 3*24*60; minute += 7 {
			now := start.Add(time.Duration(minute) * time.Minute)
			for _, reason := range disruption.BudgetReasons() {
				got, err := disruption.AllowedDisruptions(pool, minute%23, reason, now)
				if err != nil {
					t.Fatal(err)
				}
				want, err := theirs.GetAllowedDisruptionsByReason(still{now: now}, minute%23, reason)
				if err != nil || got != want {
					t.Fatalf("budgets %d at %s for %s: %d, Karpenter allows %d (%v)", i, now, reason, got, want, err)
				}
			}
		}
	}
}

// A paused NodePool loses no node, whatever its budgets allow. An invalid budget is still reported.
func TestPausedDisruption(t *testing.T) {
	pool := &karpv1.NodePool{}
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	for value, want := range map[string]int{"true": 0, "false": 10, "": 10, "yes": 10} {
		pool.Annotations = map[string]string{catalog.PausedAnnotation: value}
		for _, reason := range disruption.BudgetReasons() {
			if got, err := disruption.AllowedDisruptions(pool, 10, reason, time.Now()); got != want || err != nil {
				t.Errorf("%q: %d nodes for %s (%v), want %d", value, got, reason, err, want)
			}
		}
	}
	pool.Annotations[catalog.PausedAnnotation] = "true"
	pool.Spec.Disruption.Budgets[0].Nodes = "many"
	if got, err := disruption.AllowedDisruptions(pool, 10, karpv1.DisruptionReasonEmpty, time.Now()); got != 0 || err == nil {
		t.Errorf("%d nodes (%v)", got, err)
	}
}

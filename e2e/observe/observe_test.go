package observe_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Each stage is measured from where the one before ended, and only where both ends were seen.
func TestMeasure(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64, revision uint64) observe.Moment {
		return observe.Moment{At: start.Add(time.Duration(seconds * float64(time.Second))), Revision: revision}
	}
	claim := observe.Claim{Created: at(1, 10), Object: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		catalog.PodsAnnotation:   `[{"uids":["a","b"]}]`,
		catalog.LaunchAnnotation: "launch-1",
	}}}}
	claim.Object.Status.NodeName = "n"
	node := observe.Node{Created: at(3, 20), Ready: at(10, 30), Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	after := observe.Pod{Created: at(0, 1), Bound: at(10.5, 31), Running: at(12, 40), Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}}
	before := observe.Pod{Created: at(0, 2), Bound: at(4, 25), Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}}
	after.Object.Spec.NodeName, before.Object.Spec.NodeName = "n", "n"
	got := observe.Measure([]observe.Pod{after, before}, []observe.Node{node}, []observe.Claim{claim},
		map[string]time.Time{"launch-1": start.Add(1500 * time.Millisecond)})
	one := func(s float64) observe.Distribution { return observe.Distribution{P50: s, P99: s, N: 1} }
	want := observe.Timings{
		PendingToPlan: observe.Distribution{P50: 1, P99: 1, N: 2}, PlanToCall: one(0.5), CallToNode: one(1.5),
		CallToReady: one(8.5), ReadyToBound: one(0.5), BoundToRunning: one(1.5),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timings (-want +got):\n%s", diff)
	}
}

func TestDistribute(t *testing.T) {
	var seconds []float64
	for i := 100; i > 0; i-- {
		seconds = append(seconds, float64(i))
	}
	if got, want := observe.Distribute(seconds), (observe.Distribution{P50: 50, P99: 99, N: 100}); got != want {
		t.Errorf("Distribute(1..100) = %+v, want %+v", got, want)
	}
}

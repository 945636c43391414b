package e2e_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// The node monitoring agent says that a node's kernel has been broken for long: the node is replaced, though its pod may not be
// disrupted, and the pod runs on another. The others of its Deployment serve all the while.
func TestSickNodeIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "repair")
	w.pool("repair", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	w.budget()
	const n = 3
	w.deploy("web", n, w.podSpec("300m", "512Mi", apart("web")), protected)
	w.await(t, "all pods to be ready", func() bool { return w.ready() == n })
	claims := w.claimsOf("repair")
	w.await(t, "the nodes to be like any other", func() bool {
		return !slices.ContainsFunc(claims, func(c observe.Claim) bool {
			return w.node(c.Object.Status.NodeName).Object.Labels[karpv1.NodeInitializedLabelKey] != "true"
		})
	})
	sick := claims[0]
	w.ail(sick.Object.Status.NodeName, "KernelReady", 31*time.Minute)
	w.await(t, "the sick node to be gone and its pod to run on another", func() bool {
		return claimGone(w.cluster, sick) && w.ready() == n
	})
	w.keptAvailable(n)
	for _, c := range w.everClaimed("repair") {
		if got := w.reasonOf(c); c.Object.UID == sick.Object.UID && got != "unhealthy" || c.Object.UID != sick.Object.UID && got != "" {
			t.Errorf("NodeClaim %s was ended for %q; sick was %s", c.Object.Name, got, sick.Object.Name)
		}
	}
}

// ail says of a node that a condition has been False for some time.
func (w *world) ail(node, condition string, since time.Duration) {
	w.t.Helper()
	current := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: node}, current); err != nil {
		w.t.Fatal(err)
	}
	before := current.DeepCopy()
	current.Status.Conditions = append(current.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeConditionType(condition), Status: corev1.ConditionFalse, Reason: "SaysTheTest", Message: "for the test",
		LastTransitionTime: metav1.NewTime(time.Now().Add(-since)), LastHeartbeatTime: metav1.Now(),
	})
	if err := w.client.Status().Patch(w.t.Context(), current, client.StrategicMergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

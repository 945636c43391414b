package e2e_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The node monitoring agent says that a node's kernel has been broken for long: the node is replaced, though its pod may not be
// disrupted, and the pod runs on another.
func TestSickNodeIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "repair")
	w.pool("repair", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	d := w.deployment("web", 1, w.podSpec("300m", "512Mi", nil))
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"true"}}}}}`))
	if err := w.client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the pod that may not be disrupted to run alone", func() bool {
		for _, p := range w.pods() {
			if !p.Deleted.Seen() && p.Object.Annotations[karpv1.DoNotDisruptAnnotationKey] == "" {
				return false
			}
		}
		return w.ready() == 1
	})
	var on string
	for _, p := range w.pods() {
		if !p.Deleted.Seen() {
			on = p.Object.Spec.NodeName
		}
	}
	for _, c := range w.claimsOf("repair") {
		if c.Object.Status.NodeName != on {
			continue
		}
		w.await(t, "the node to be one like any other", func() bool {
			return w.node(on).Object.Labels[karpv1.NodeInitializedLabelKey] == "true"
		})
		w.ail(on, "KernelReady", 31*time.Minute)
		w.await(t, "the sick node to be gone and the pod to run on another", func() bool { return claimGone(w.cluster, c) && w.ready() == 1 })
		if got := w.reasonOf(c); got != "unhealthy" {
			t.Errorf("the NodeClaim was ended for %q", got)
		}
		return
	}
	t.Fatalf("no NodeClaim of node %q", on)
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

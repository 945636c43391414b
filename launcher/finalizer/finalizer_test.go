package finalizer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/finalizer"
)

// An object has one owner at a time, and the finalizers of others stay.
func TestOwners(t *testing.T) {
	claim := &karpv1.NodeClaim{}
	claim.Finalizers = []string{"example.com/theirs"}
	for _, c := range []struct {
		what string
		do   func()
		want []string
	}{
		{"guard", func() { finalizer.Guard(claim) }, []string{"example.com/theirs", karpv1.TerminationFinalizer}},
		{"take", func() { finalizer.Take(claim) }, []string{"example.com/theirs", finalizer.Slipway}},
		{"guard again", func() { finalizer.Guard(claim) }, []string{"example.com/theirs", finalizer.Slipway}},
		{"return", func() { finalizer.Return(claim) }, []string{"example.com/theirs", karpv1.TerminationFinalizer}},
		{"release", func() { finalizer.Release(claim) }, []string{"example.com/theirs"}},
	} {
		c.do()
		if diff := cmp.Diff(c.want, claim.Finalizers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
		guarded := len(c.want) > 1
		if finalizer.Guarded(claim) != guarded || finalizer.Taken(claim) != (guarded && c.want[1] == finalizer.Slipway) ||
			finalizer.Karpenters(claim) != (guarded && c.want[1] == karpv1.TerminationFinalizer) {
			t.Errorf("%s: guarded %t, taken %t, Karpenter's %t", c.what, finalizer.Guarded(claim), finalizer.Taken(claim), finalizer.Karpenters(claim))
		}
	}
}

// A Node gets the finalizer of its NodeClaim, and slipway's Node is shielded from Karpenter's disruption.
func TestGuardLike(t *testing.T) {
	claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
	finalizer.GuardLike(node, claim)
	if !finalizer.Karpenters(node) || len(node.Annotations) > 0 {
		t.Errorf("of a NodeClaim that nobody has taken: %+v", node.ObjectMeta)
	}
	finalizer.Take(claim)
	finalizer.GuardLike(node, claim)
	if !finalizer.Karpenters(node) {
		t.Errorf("a Node that has an owner: %+v", node.ObjectMeta)
	}
	node = &corev1.Node{}
	finalizer.GuardLike(node, claim)
	if !finalizer.Taken(node) || node.Annotations[karpv1.DoNotDisruptAnnotationKey] != "true" {
		t.Errorf("of slipway's NodeClaim: %+v", node.ObjectMeta)
	}
	finalizer.Unshield(node)
	if len(node.Annotations) > 0 {
		t.Errorf("annotations are left: %v", node.Annotations)
	}
	orphan := &corev1.Node{}
	finalizer.GuardLike(orphan, nil)
	if !finalizer.Karpenters(orphan) {
		t.Errorf("of no NodeClaim: %+v", orphan.ObjectMeta)
	}
}

// What the user has said about the node is not touched.
func TestShieldLeavesTheUsersAnnotation(t *testing.T) {
	node := &corev1.Node{}
	node.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "30m"}
	finalizer.Shield(node)
	finalizer.Unshield(node)
	if diff := cmp.Diff(map[string]string{karpv1.DoNotDisruptAnnotationKey: "30m"}, node.Annotations); diff != "" {
		t.Error(diff)
	}
}

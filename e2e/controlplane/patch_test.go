package controlplane_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/node"
)

// The API server takes a patch of a Node that others have written since it was read, and refuses one of a list that changed, or of another Node of
// the name, as a conflict. The first of a list's items is added, and its last removed, by patches as well. Kubernetes' controllers put taints of their
// own on this Node.
func patchesAreForWhatWasRead(t *testing.T, c client.Client) {
	t.Helper()
	const prefix = "example.com/"
	theirs := func(taint corev1.Taint) bool { return !strings.HasPrefix(taint.Key, prefix) }
	old := corev1.Taint{Key: prefix + "old", Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.Now().Rfc3339Copy())}
	later := corev1.Taint{Key: prefix + "new", Effect: corev1.TaintEffectNoSchedule}
	created := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "patched"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{old}}}
	if err := c.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	current := func() *corev1.Node {
		t.Helper()
		out := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(created), out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	patch := func(from *corev1.Node, finalizers []string, taints ...corev1.Taint) error {
		want := from.DeepCopy()
		want.Spec.Taints = append(slices.DeleteFunc(want.Spec.Taints, func(taint corev1.Taint) bool { return !theirs(taint) }), taints...)
		want.Finalizers = finalizers
		return node.Patch(t.Context(), c, from, want)
	}
	guard := []string{prefix + "guard"}
	for _, step := range []struct {
		finalizers []string
		taints     []corev1.Taint
	}{{guard, []corev1.Taint{old, later}}, {nil, []corev1.Taint{later}}, {guard, nil}, {nil, []corev1.Taint{later}}} {
		if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			read := current()
			written := read.DeepCopy()
			written.Status.Phase = corev1.NodeRunning
			if err := c.Status().Patch(t.Context(), written, client.MergeFrom(read)); err != nil {
				return err
			}
			return patch(read, step.finalizers, step.taints...)
		}); err != nil {
			t.Fatal(err)
		}
		now := current()
		left := slices.DeleteFunc(slices.Clone(now.Spec.Taints), theirs)
		if !slices.EqualFunc(left, step.taints, func(a, b corev1.Taint) bool { return a.Key == b.Key }) || !slices.Equal(now.Finalizers, step.finalizers) || now.Status.Phase != corev1.NodeRunning {
			t.Errorf("taints %v in place of %v, finalizers %v, phase %q", left, step.taints, now.Finalizers, now.Status.Phase)
		}
	}
	if err := patch(created, guard, later); !apierrors.IsConflict(err) {
		t.Errorf("a patch of taints that changed: %v", err)
	}
	other := current()
	if other.UID = "1"; !apierrors.IsConflict(patch(other, guard)) {
		t.Error("a patch of another Node is taken")
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return patch(current(), nil, corev1.Taint{Key: prefix + "not valid", Effect: "Never"})
	}); !apierrors.IsInvalid(err) {
		t.Errorf("a taint that is invalid: %v", err)
	}
}

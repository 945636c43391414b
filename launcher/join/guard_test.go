package join_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// strip takes the finalizers from the claim and leaves one of a user's.
func (w *world) strip() {
	w.t.Helper()
	current := w.current()
	current.Finalizers = []string{"example.com/theirs"}
	if err := w.api.Update(w.t.Context(), current); err != nil {
		w.t.Fatal(err)
	}
}

// A claim gets Karpenter's finalizer whoever created it, before anything else is done for it.
func TestFinalizerOfAUsersClaim(t *testing.T) {
	w := newWorld(t)
	old := metav1.NewTime(time.Now().Add(-time.Minute))
	w.create(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", CreationTimestamp: old}})
	c := w.controller()
	w.ours = false // A Karpenter is alive, and this is its claim.
	w.looks(c, 1)
	if f := w.current().Finalizers; len(f) > 0 {
		t.Errorf("finalizers of a claim that is not ours: %v", f)
	}
	w.ours = true
	w.looks(c, 1)
	if f := w.current().Finalizers; !slices.Equal(f, []string{karpv1.TerminationFinalizer}) {
		t.Errorf("finalizers %v", f)
	}
	w.wantTrace()
	w.looks(c, 1)
	w.wantTrace("launch default-1")
}

// A finalizer that a user removed is added again, while the node boots and after it is initialized.
func TestFinalizerComesBack(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	c := w.controller()
	want := []string{"example.com/theirs", karpv1.TerminationFinalizer}
	w.strip()
	w.looks(c, 1)
	if f := w.current().Finalizers; !slices.Equal(f, want) || w.node("node-1") != nil {
		t.Errorf("finalizers %v, Node %v", f, w.node("node-1"))
	}
	current := w.current()
	current.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	current.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	if err := w.api.Status().Update(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	w.strip()
	w.looks(c, 1)
	if f := w.current().Finalizers; !slices.Equal(f, want) {
		t.Errorf("finalizers of an initialized claim: %v", f)
	}
}

// A claim that is being deleted can get no finalizer any more: the API server would refuse it.
func TestNoFinalizerWhileDeleting(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	w.strip()
	if err := w.api.Delete(t.Context(), w.current()); err != nil {
		t.Fatal(err)
	}
	w.looks(w.controller(), 1)
	if f := w.current().Finalizers; len(f) != 1 {
		t.Errorf("finalizers %v", f)
	}
	w.wantTrace("forget claim")
}

package billing

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// podsOn are pods by the names of their nodes; On fails for a node without any.
type podsOn struct {
	index.Pods
	of map[string][]*corev1.Pod
}

// On implements index.Pods.
func (p podsOn) On(_ context.Context, node string) ([]*corev1.Pod, error) {
	if p.of[node] == nil {
		return nil, errors.New("no such node")
	}
	return p.of[node], nil
}

// What the bill needs of a node's pods is computed again when one comes, goes or changes, and kept otherwise, whatever their order.
func TestPodsAreRemembered(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	versioned := func(name, version string) *corev1.Pod {
		p := pod("a", name, "1Gi", now)
		p.ResourceVersion = version
		return p
	}
	a, b := versioned("a", "1"), versioned("b", "1")
	a.UID, b.UID = "1", "2"
	changed := b.DeepCopy()
	changed.ResourceVersion = "2"
	claim := &karpv1.NodeClaim{}
	claim.Status.NodeName = "n"
	memory := newPodMemory()
	look := func(pods ...*corev1.Pod) []bill.Pod {
		t.Helper()
		out, err := memory.on(t.Context(), podsOn{of: map[string][]*corev1.Pod{"n": pods}}, []*karpv1.NodeClaim{claim, {}})
		if err != nil || len(out) != 1 || len(out["n"]) != len(pods) {
			t.Fatalf("pods %v, error %v", out, err)
		}
		return out["n"]
	}
	first := look(a, b)
	if again := look(b, a); &again[0] != &first[0] {
		t.Error("the same pods in another order are computed again")
	}
	if next := look(a, changed); &next[0] == &first[0] {
		t.Error("a pod that changed is not computed again")
	}
	if fewer := look(a); fewer[0].UID != "1" {
		t.Errorf("after one is gone: %+v", fewer)
	}
	if other := look(b); other[0].UID != "2" {
		t.Errorf("after another took its place: %+v", other)
	}
	if _, err := memory.on(t.Context(), podsOn{}, []*karpv1.NodeClaim{claim}); err == nil {
		t.Error("no error")
	}
	if out, err := memory.on(t.Context(), podsOn{}, nil); err != nil || len(out) != 0 || len(memory.of) != 0 {
		t.Errorf("without NodeClaims: %v, %v remembered, error %v", out, memory.of, err)
	}
}

// The NodeClaims of an observation are the cache's: one that has no conditions yet gets none.
func TestLookChangesNothing(t *testing.T) {
	claim, n := node("n", "spot", time.Now())
	claim.Status.Conditions = nil
	before := claim.DeepCopy()
	Look(Objects{Now: time.Now(), Claims: []*karpv1.NodeClaim{claim}, Nodes: []*corev1.Node{n}, Types: instanceTypes(t.Context()), Commitments: []commitment.Commitment{
		{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 0.1, Discount: 0.25, Share: 1},
	}})
	if diff := cmp.Diff(before, claim); diff != "" {
		t.Errorf("a NodeClaim was changed (-before +after):\n%s", diff)
	}
}

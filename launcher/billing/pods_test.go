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

// podsByNode are pods by the names of their nodes; On fails for a node without any.
type podsByNode struct {
	index.Pods
	of map[string][]*corev1.Pod
}

// On implements index.Pods.
func (p podsByNode) On(_ context.Context, node string) ([]*corev1.Pod, error) {
	if p.of[node] == nil {
		return nil, errors.New("no such node")
	}
	return p.of[node], nil
}

// Changes implements index.Pods: the pods stay as they are.
func (podsByNode) Changes(context.Context, string) (uint64, bool) { return 0, true }

// The bill looks at the pods of Nodes that NodeClaims name, and at those of none that it no longer sees.
func TestPodsOnNodes(t *testing.T) {
	claim := &karpv1.NodeClaim{}
	claim.Status.NodeName = "n"
	var memory index.PerNode[[]bill.Pod]
	from := podsByNode{of: map[string][]*corev1.Pod{"n": {pod("a", "a", "1Gi", time.Now())}}}
	for range 2 {
		out, err := podsOn(t.Context(), from, &memory, []*karpv1.NodeClaim{claim, {}})
		if err != nil || len(out) != 1 || len(out["n"]) != 1 {
			t.Fatalf("pods %v, error %v", out, err)
		}
		from.of = map[string][]*corev1.Pod{} // They are not read again.
	}
	if out, err := podsOn(t.Context(), from, &memory, nil); err != nil || len(out) != 0 {
		t.Errorf("without NodeClaims: %v, error %v", out, err)
	}
	if _, err := podsOn(t.Context(), from, &memory, []*karpv1.NodeClaim{claim}); err == nil {
		t.Error("no error")
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

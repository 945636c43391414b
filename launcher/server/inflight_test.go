package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// A node is on its way until it is initialized or leaves; to ask does not write to the claim, which is the cache's.
func TestInFlight(t *testing.T) {
	claim := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	before := claim
	if !inFlight(&claim) {
		t.Error("a claim without conditions is not on its way")
	}
	if diff := cmp.Diff(before, claim); diff != "" {
		t.Errorf("the claim was written to (-before +after):\n%s", diff)
	}
	leaving := *claim.DeepCopy()
	leaving.DeletionTimestamp = new(metav1.Now())
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	if inFlight(&claim) || inFlight(&leaving) {
		t.Error("a node that is initialized, or leaves, is on its way")
	}
}

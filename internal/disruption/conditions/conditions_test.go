package conditions_test

import (
	"testing"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// TestNode reads the condition Ready as kubelets and the node lifecycle controller write it.
func TestNode(t *testing.T) {
	for name, c := range map[string]struct {
		conditions          []corev1.NodeCondition
		has, posted, isTrue bool
	}{
		"none":            {},
		"another":         {conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}}},
		"Ready":           {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, true, true, true},
		"not Ready":       {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}, true, true, false},
		"never posted":    {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated"}}, true, false, false},
		"posted too late": {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}}, true, true, false},
	} {
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: c.conditions}}
		if has, posted, isTrue := conditions.Ready(node) != nil, conditions.Posted(node) != nil, conditions.NodeReady(node); has != c.has || posted != c.posted || isTrue != c.isTrue {
			t.Errorf("%s: has %t, posted %t, true %t", name, has, posted, isTrue)
		}
	}
}

// TestOnlyReads has a NodeClaim, a NodePool and a pod without conditions stay as they are: objects of a cache are shared.
func TestOnlyReads(t *testing.T) {
	claim, pool, pod := &karpv1.NodeClaim{}, &karpv1.NodePool{}, &corev1.Pod{}
	if conditions.Claim(claim, karpv1.ConditionTypeInitialized) != nil || conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) ||
		conditions.PoolReady(pool) || conditions.Pod(pod, corev1.PodReady) != nil || conditions.PodIs(pod, corev1.PodReady) {
		t.Error("a condition was found where there is none")
	}
	if len(claim.Status.Conditions)+len(pool.Status.Conditions)+len(pod.Status.Conditions) > 0 {
		t.Error("conditions were written")
	}
	claim.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue}}
	pool.Status.Conditions = []status.Condition{{Type: status.ConditionReady, Status: metav1.ConditionTrue}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if !conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) || !conditions.PoolReady(pool) ||
		conditions.Pod(pod, corev1.PodReady) == nil || conditions.PodIs(pod, corev1.PodReady) {
		t.Error("a condition was not found")
	}
}

// A node is on its way until it is initialized or leaves; to ask does not write to the claim, which is the cache's.
func TestInFlight(t *testing.T) {
	claim := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	before := claim
	if !conditions.InFlight(&claim) {
		t.Error("a claim without conditions is not on its way")
	}
	if diff := cmp.Diff(before, claim); diff != "" {
		t.Errorf("the claim was written to (-before +after):\n%s", diff)
	}
	leaving := *claim.DeepCopy()
	leaving.DeletionTimestamp = new(metav1.Now())
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	if conditions.InFlight(&claim) || conditions.InFlight(&leaving) {
		t.Error("a node that is initialized, or leaves, is on its way")
	}
}

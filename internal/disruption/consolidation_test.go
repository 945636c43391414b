package disruption_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// facts returns those of a node that may be removed.
func facts(now time.Time) disruption.ConsolidationFacts {
	f := disruption.ConsolidationFacts{NodeAge: 10 * time.Minute, Candidate: disruption.Candidate{
		Now: now, Claim: &karpv1.NodeClaim{}, Node: &corev1.Node{}, Pool: &karpv1.NodePool{},
	}}
	f.Pool.Name = "default"
	f.Pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("30s")
	f.Claim.StatusConditions().SetTrue(karpv1.ConditionTypeConsolidatable)
	f.Node.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	f.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return f
}

// launchedFor makes the node one that was launched for the pods of another.
func launchedFor(f *disruption.ConsolidationFacts, joined time.Time, came bool) {
	f.Claim.Annotations = map[string]string{"slipway.dev/replaces": "old"}
	f.Claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	for i := range f.Claim.Status.Conditions {
		f.Claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(joined)
	}
	if came {
		f.Claim.Status.LastPodEventTime = metav1.NewTime(joined)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)},
	}}}
}

func TestBlocksConsolidation(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change  func(*disruption.ConsolidationFacts)
		want    string
		passing bool
	}{
		"nothing":             {func(*disruption.ConsolidationFacts) {}, "", false},
		"leaving":             {func(f *disruption.ConsolidationFacts) { f.Claim.DeletionTimestamp = new(metav1.NewTime(now)) }, "the node is terminating already", true},
		"in a move":           {func(f *disruption.ConsolidationFacts) { f.Moving = true }, "the node is terminating already", true},
		"cordoned by kubectl": {func(f *disruption.ConsolidationFacts) { f.Node.Spec.Unschedulable = true }, "the node is terminating already", true},
		"consolidateAfter Never": {
			func(f *disruption.ConsolidationFacts) {
				f.Pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
			},
			"NodePool default consolidates nothing (consolidateAfter Never)", false,
		},
		"a fixed number of nodes": {
			func(f *disruption.ConsolidationFacts) { f.Pool.Spec.Replicas = new(int64(3)) }, "NodePool default has a fixed number of nodes (spec.replicas)", false,
		},
		"not Ready": {func(f *disruption.ConsolidationFacts) { f.Node.Status.Conditions = nil }, "the node is not Ready", true},
		"a pod came": {
			func(f *disruption.ConsolidationFacts) { f.Claim.Status.Conditions = nil }, "a pod was added or removed less than 30s ago (consolidateAfter)", true,
		},
		"bought minutes ago": {
			func(f *disruption.ConsolidationFacts) {
				f.Node.CreationTimestamp = metav1.NewTime(now.Add(-9 * time.Minute))
			},
			"the node is left alone until it is 10m0s old, at 2026-01-01T12:01:00Z", true,
		},
		"old enough for its NodePool": {func(f *disruption.ConsolidationFacts) {
			f.Node.CreationTimestamp = metav1.NewTime(now.Add(-9 * time.Minute))
			f.Pool.Annotations = map[string]string{catalog.NodeAgeAnnotation: "5m"}
		}, "", false},
		"an annotation that cannot be read": {func(f *disruption.ConsolidationFacts) {
			f.Node.CreationTimestamp = metav1.NewTime(now.Add(-9 * time.Minute))
			f.Pool.Annotations = map[string]string{catalog.NodeAgeAnnotation: "soon"}
		}, "the node is left alone until it is 10m0s old, at 2026-01-01T12:01:00Z", true},
		"launched a minute ago for others that have not come": {
			func(f *disruption.ConsolidationFacts) { launchedFor(f, now.Add(-time.Minute), false) },
			"the node was launched for the pods of other nodes, which may not be bound yet", true,
		},
		"launched long ago for others that did not come": {func(f *disruption.ConsolidationFacts) { launchedFor(f, now.Add(-2*time.Minute), false) }, "", false},
		"launched for others, one of which came":         {func(f *disruption.ConsolidationFacts) { launchedFor(f, now.Add(-time.Minute), true) }, "", false},
		"a move called off": {
			func(f *disruption.ConsolidationFacts) { f.Rest = now.Add(time.Minute) }, "a move of the node was called off, it is left alone until 2026-01-01T12:01:00Z", true,
		},
		"a pod is protected": {
			func(f *disruption.ConsolidationFacts) {
				f.Pods = []*corev1.Pod{pod("web-1")}
				f.Pods[0].Annotations = map[string]string{"karpenter.sh/do-not-evict": "true"}
			},
			`Pod default/web-1 has the "karpenter.sh/do-not-disrupt" annotation`, false,
		},
		"a pod has not started": {
			func(f *disruption.ConsolidationFacts) {
				f.Pods = []*corev1.Pod{pod("web-1")}
				f.Pods[0].Status.Phase, f.Pods[0].CreationTimestamp = corev1.PodPending, metav1.NewTime(now.Add(-9*time.Minute))
			},
			"pod default/web-1 has not started yet", true,
		},
		"a pod does not start": {
			func(f *disruption.ConsolidationFacts) {
				f.Pods = []*corev1.Pod{pod("web-1")}
				f.Pods[0].Status.Phase, f.Pods[0].CreationTimestamp = corev1.PodPending, metav1.NewTime(now.Add(-10*time.Minute))
			}, "", false,
		},
		"bought a moment ago": {
			func(f *disruption.ConsolidationFacts) { f.NodeAge, f.Node.CreationTimestamp = 0, metav1.NewTime(now) }, "", false,
		},
		"a pod terminates": {
			func(f *disruption.ConsolidationFacts) {
				f.Pods = []*corev1.Pod{pod("web-1"), pod("web-2")}
				f.Pods[1].DeletionTimestamp = new(metav1.NewTime(now))
			},
			"pod default/web-2 is terminating", true,
		},
	} {
		f := facts(now)
		c.change(&f)
		got := disruption.BlocksConsolidation(f)
		if got.Why != c.want || got.Passing != c.passing {
			t.Errorf("%s: %q, passing %t; want %q, %t", name, got.Why, got.Passing, c.want, c.passing)
		}
		if got.OfNodePool != strings.HasPrefix(c.want, "NodePool default") {
			t.Errorf("%s: a reason of its NodePool: %t", name, got.OfNodePool)
		}
	}
}

package disruption_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// A pod that came within consolidateAfter is named, unless it does not occupy the node or terminates.
func TestArrived(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	bound := func(ago time.Duration) *corev1.Pod {
		p := pod("late")
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
		return p
	}
	ends, created := bound(0), pod("late")
	ends.DeletionTimestamp, created.CreationTimestamp = new(metav1.NewTime(now)), metav1.NewTime(now.Add(-time.Minute))
	daemon := bound(0)
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: new(true)}}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		after time.Duration
		want  bool
	}{
		"lately":                          {bound(time.Minute), 30 * time.Minute, true},
		"long ago":                        {bound(30 * time.Minute), 30 * time.Minute, false},
		"its status does not show when":   {created, 30 * time.Minute, true},
		"consolidateAfter 0s":             {bound(0), 0, false},
		"the same, by a clock that leads": {bound(-time.Second), 0, false},
		"it terminates":                   {ends, 30 * time.Minute, false},
		"of a DaemonSet":                  {daemon, 30 * time.Minute, false},
	} {
		got := disruption.Arrived([]*corev1.Pod{c.pod}, c.after, now)
		if want := "Pod " + c.pod.Namespace + "/late came less than 30m0s ago (consolidateAfter)"; (got == want) != c.want || !c.want && got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Only a node that nothing but its pods' coming and going keeps is one that may be removed soon.
func TestBlocksConsolidationSoon(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	restless := func(f *disruption.ConsolidationFacts) { f.Claim.Status.Conditions = nil }
	for name, c := range map[string]struct {
		change func(*disruption.ConsolidationFacts)
		want   bool
	}{
		"it may be removed now": {func(*disruption.ConsolidationFacts) {}, false},
		"a pod left":            {restless, true},
		"a pod ends": {func(f *disruption.ConsolidationFacts) {
			ends := pod("a")
			ends.DeletionTimestamp = new(metav1.NewTime(now))
			f.Pods = append(f.Pods, ends)
		}, true},
		"a pod left, long ago as NodePools go": {func(f *disruption.ConsolidationFacts) {
			restless(f)
			f.Pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("10m")
		}, false},
		"never": {func(f *disruption.ConsolidationFacts) {
			restless(f)
			f.Pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
		}, false},
		"do-not-disrupt": {func(f *disruption.ConsolidationFacts) {
			restless(f)
			f.Node.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		}, false},
		"it is in a move": {func(f *disruption.ConsolidationFacts) { restless(f); f.Moving = true }, false},
	} {
		f := facts(now)
		c.change(&f)
		if got := disruption.BlocksConsolidation(f).Soon; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

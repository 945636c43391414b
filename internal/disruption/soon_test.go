package disruption_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

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

package e2e_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/nodeoverlay"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// mistakes are entries of a list of commitments, each with what its Event says.
func mistakes() map[string]string {
	return map[string]string{
		"{id: negative, kind: ComputeSavingsPlan, usdPerHour: -1, discountPercent: 25}":                               "negative: usdPerHour: ",
		"{id: none, kind: ComputeSavingsPlan, usdPerHour: .nan, discountPercent: 25}":                                 "none: usdPerHour: a number is expected, got NaN",
		"{id: endless, kind: ComputeSavingsPlan, usdPerHour: .inf, discountPercent: 25}":                              "endless: usdPerHour: a number is expected, got +Inf",
		"{id: huge, kind: ComputeSavingsPlan, usdPerHour: 1e300, discountPercent: 25}":                                "huge: usdPerHour: ",
		"{id: unreadable, kind: ComputeSavingsPlan, usdPerHour: much, discountPercent: 25}":                           "unreadable: usdPerHour: a number is expected",
		"{id: ended, kind: ComputeSavingsPlan, usdPerHour: 9, discountPercent: 25, end: 2020-01-01T00:00:00Z}":        "ended: end: it ended at 2020-01-01T00:00:00Z",
		"{id: many, kind: ReservedInstances, instanceType: r6i.large, count: 99999999999999999999, zone: us-east-1a}": "many: count: a whole number is expected",
	}
}

// One of each mistake at once: every one is reported on its own object and left out, all else counts, and pods of this NodePool and of another one run.
func TestBadInputAlone(t *testing.T) {
	awaitReady(t)
	w := newWorld(t, "bad-input")
	defer w.uncommit("sp-r6i")
	list := "- some words\n"
	for entry := range mistakes() {
		list += "- " + entry + "\n"
	}
	w.commit(list + "- {id: sp-r6i, kind: EC2InstanceSavingsPlan, family: r6i, usdPerHour: 1, discountPercent: 25}\n")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large", "c6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		p.Annotations = map[string]string{catalog.NodeCostAnnotation: "-0.02", catalog.BurstUseAnnotation: "1e999"}
	})
	w.pool("good-input", func(p *karpv1.NodePool) { onlyTypes(p, "r6i.large") })
	w.badOverlays()
	w.await(t, "an Event about the first entry", func() bool { return w.told("CommitmentLeftOut", "entry 1: an entry with fields is expected") })
	for entry, message := range mistakes() {
		w.await(t, "an Event about "+entry, func() bool { return w.told("CommitmentLeftOut", message) })
	}
	w.await(t, "the commitment without a mistake to be in use", func() bool { return w.left("sp-r6i") == 1 })
	pool := &karpv1.NodePool{}
	w.await(t, "the NodePool to report its costs", func() bool {
		if err := w.client.Get(t.Context(), keyOf(w.name), pool); err != nil {
			return false
		}
		c := pool.StatusConditions().Get(nodepool.ConditionNodeCost)
		return c.IsFalse() && strings.Contains(c.Message, `"-0.02"`) && strings.Contains(c.Message, `"1e999"`) && pool.StatusConditions().Root().IsTrue()
	})

	w.launchesBesideMistakes()
}

// launchesBesideMistakes runs a pod on each NodePool: costs that cannot be read count as 0, and the NodeOverlay and the commitment without a mistake are applied.
func (w *world) launchesBesideMistakes() {
	w.t.Helper()
	for _, name := range []string{w.name, "good-input"} {
		w.deployment(name, 1, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[karpv1.NodePoolLabelKey] = name }))
	}
	w.awaitRunning(2)
	bad, good := w.claimsOf(w.name)[0].Object, w.claimsOf("good-input")[0].Object
	if cost, ok := catalog.ParseCost(bad.Annotations[catalog.CostAnnotation]); !ok || cost.Instance < 0.0099 || cost.Instance > 0.0101 || cost.Declared != 0 {
		w.t.Errorf("the node of the NodePool with mistakes costs %+v, want the price of the NodeOverlay without one", cost)
	}
	if by := good.Annotations[catalog.CoveredByAnnotation]; by != "sp-r6i" {
		w.t.Errorf("the other NodePool's node is covered by %q", by)
	}
}

// badOverlays creates NodeOverlays with mistakes, and one without.
func (w *world) badOverlays() {
	w.t.Helper()
	negative := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "bad-input-negative"}}
	negative.Spec.Requirements = []v1alpha1.NodeSelectorRequirement{{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{w.name}}}
	negative.Spec.Price = new("-1")
	if err := w.client.Create(w.t.Context(), negative); err == nil || !strings.Contains(err.Error(), "spec.price") {
		w.t.Errorf("creating a NodeOverlay with a negative price: %v", err)
	}
	w.overlay("bad-input-unmatched", 30, func(s *v1alpha1.NodeOverlaySpec) {
		onType(s, "x99.large")
		s.Price = new("0.001")
	})
	unmatched := &v1alpha1.NodeOverlay{}
	w.await(w.t, "the NodeOverlay that matches nothing to say so", func() bool {
		if err := w.client.Get(w.t.Context(), keyOf("bad-input-unmatched"), unmatched); err != nil {
			return false
		}
		c := unmatched.StatusConditions().Get(v1alpha1.ConditionTypeValidationSucceeded)
		return c.Reason == nodeoverlay.ReasonUnmatched && strings.Contains(c.Message, "no offering of any NodePool meets them")
	})
	w.await(w.t, "an Event on it", func() bool { return len(w.eventsAbout("bad-input-unmatched", nodeoverlay.ReasonUnmatched)) > 0 })
	for name, price := range map[string]string{"m6i.large": "0.01", "c6i.large": strings.Repeat("9", 400)} {
		if status, reason, message := w.overlay("bad-input-"+strings.ReplaceAll(name, ".", "-"), 20, func(s *v1alpha1.NodeOverlaySpec) {
			onType(s, name)
			s.Price = &price
		}); status != "True" {
			w.t.Errorf("the condition of the NodeOverlay with a price of %.10s is %s: %s: %s", price, status, reason, message)
		}
	}
}

package pending

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/internal/workload"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// Spread has held pods planned again whose hard topology spread may allow a node that it did not allow before: all that have such a constraint if a node is
// gone, else those that count one of the pods, which were bound meanwhile. Pods of the held pod's own workload have no say: each of thousands that is bound
// would have all others planned again. What gave it room had the queue try the others too. A pod is planned ever later, up to replanMost.
func (p *Pods) Spread(nodeGone bool, bound []*corev1.Pod, now time.Time) {
	if !nodeGone && len(bound) == 0 {
		return
	}
	classes := map[string]spreadClass{}
	for uid, e := range p.unplaced {
		if until, waits := p.until[uid]; waits && until.Before(now.Add(replanMost)) {
			continue
		}
		class, known := classes[e.Class]
		if !known {
			class = spreadClassOf(e.Pod, bound)
			classes[e.Class] = class
		}
		if class.spreads && (nodeGone || class.countsOther(e.Pod)) {
			p.rested(e, replanFirst, now)
		}
	}
}

// spreadClass is what the pods of a class have in common.
type spreadClass struct {
	// spreads says that they have a hard topology spread, counted are the pods that it counts.
	spreads bool
	counted []*corev1.Pod
}

// spreadClassOf returns the class of a pod, and which of the others it counts.
func spreadClassOf(pod *corev1.Pod, others []*corev1.Pod) spreadClass {
	terms := spreads(pod)
	out := spreadClass{spreads: len(terms) > 0}
	for _, other := range others {
		if slices.ContainsFunc(terms, func(t relations.Term) bool { return t.Matches(other) }) {
			out.counted = append(out.counted, other)
		}
	}
	return out
}

// countsOther reports whether one of the pods that are counted is of another workload than the pod.
func (c *spreadClass) countsOther(pod *corev1.Pod) bool {
	kind, name := workload.Of(pod)
	return slices.ContainsFunc(c.counted, func(other *corev1.Pod) bool {
		k, n := workload.Of(other)
		return kind == "" || k != kind || n != name
	})
}

// spreads returns the terms of the pod's hard topology spread, but for that over single nodes: a node that is launched is always one more.
func spreads(pod *corev1.Pod) (out []relations.Term) {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || c.TopologyKey == corev1.LabelHostname {
			continue
		}
		if term, err := relations.SpreadTerm(pod, c); err == nil {
			out = append(out, term)
		}
	}
	return out
}

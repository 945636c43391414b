package pending

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/internal/workload"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// Spread has held pods planned again whose hard topology spread may allow a node that it did not allow before: all that have such a constraint if a node is
// gone, else those that count one of the pods, which were bound meanwhile. Pods of the held pod's own workload have no say: each of thousands that is bound
// would have all others planned again. What gave it room had the queue try the others too. A pod is planned ever later, up to replanMost.
func (p *Pods) Spread(nodeGone bool, bound []*corev1.Pod, now time.Time) {
	if !nodeGone && len(bound) == 0 {
		return
	}
	counted := map[string][]*corev1.Pod{}
	for uid, e := range p.unplaced {
		terms := spreads(e.Pod)
		if until, waits := p.until[uid]; len(terms) == 0 || waits && until.Before(now.Add(replanMost)) {
			continue
		}
		if !nodeGone && !p.countsAny(e, terms, bound, counted) {
			continue
		}
		p.rested(e, replanFirst, now)
	}
}

// countsAny reports whether the terms of a held pod count one of the pods, of another workload. counted keeps those that the terms of a class count.
func (p *Pods) countsAny(e intake.Entry, terms []relations.Term, bound []*corev1.Pod, counted map[string][]*corev1.Pod) bool {
	some, known := counted[e.Class]
	if !known {
		for _, pod := range bound {
			for i := range terms {
				if terms[i].Matches(pod) {
					some = append(some, pod)
					break
				}
			}
		}
		counted[e.Class] = some
	}
	kind, name := workload.Of(e.Pod)
	for _, pod := range some {
		if k, n := workload.Of(pod); kind == "" || k != kind || n != name {
			return true
		}
	}
	return false
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

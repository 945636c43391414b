package affinity

import corev1 "k8s.io/api/core/v1"

// OnDifference has f called when what is remembered differs from InterPodAffinity, before all of it is forgotten.
func (p *Plugin) OnDifference(f func()) {
	p.check.Forget = func() {
		f()
		p.memory.Forget()
	}
}

// Remembers reports whether the pod would be filtered, and scored, by what is remembered of its class. It leaves out pods that are scored by the terms of others alone.
func (p *Plugin) Remembers(pod *corev1.Pod) (filters, scores bool) {
	of, err := p.class(pod)
	if of == nil || err != nil {
		return false, false
	}
	return required(pod) && of.filter != nil, prefers(pod) && of.score != nil
}

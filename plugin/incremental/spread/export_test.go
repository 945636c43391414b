package spread

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// OnDifference has f called when what is remembered differs from PodTopologySpread, before all of it is forgotten.
func (p *Plugin) OnDifference(f func()) {
	p.check.Forget = func() {
		f()
		p.memory.Forget()
	}
}

// Remembers reports whether the pod would be filtered, and scored, by what is remembered of its class.
func (p *Plugin) Remembers(pod *corev1.Pod) (filters, scores bool) {
	return p.remembered(pod, p.hard), p.remembered(pod, p.soft)
}

func (p *Plugin) remembered(pod *corev1.Pod, read func(*corev1.Pod) (needs, bool)) bool {
	of, ok := read(pod)
	if !ok || len(of.constraints) == 0 {
		return false
	}
	key, err := of.key(pod)
	if err != nil {
		return false
	}
	known, err := p.memory.Class(key, pod.UID, func() (*class, error) { return nil, errors.New("it is only asked for") })
	return known != nil && err == nil
}

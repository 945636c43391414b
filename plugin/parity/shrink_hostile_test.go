package parity_test

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// manyElements is from how many elements on a list is halved before its elements are left out one by one.
const manyElements = 8

// halves are the cases with half of a long list: of the pods, and of each list that hostile pods and DaemonSets have.
func halves(c *cluster) []*cluster {
	var out []*cluster
	for _, half := range halvesOf(c.pods) {
		n := c.clone()
		n.pods = half
		out = append(out, n)
	}
	for _, less := range lessOfLists() {
		for first := range 2 {
			n, changed := c.clone(), false
			for i, p := range c.pods {
				if hostile(p) {
					n.pods[i] = p.DeepCopy()
					changed = less(n.pods[i], first) || changed
				}
			}
			for i, ds := range c.daemonSets {
				if ds.Namespace == hostileNamespace {
					n.daemonSets[i] = ds.DeepCopy()
					t := &n.daemonSets[i].Spec.Template
					p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
					changed = less(p, first) || changed
					t.ObjectMeta, t.Spec = p.ObjectMeta, p.Spec
				}
			}
			if changed {
				out = append(out, n)
			}
		}
	}
	return out
}

// halvesOf are the list without its first and without its second half; none of a short list.
func halvesOf[T any](list []T) [][]T {
	if len(list) < manyElements {
		return nil
	}
	half := len(list) / 2
	return [][]T{slices.Clone(list[half:]), slices.Clone(list[:half])}
}

// halve leaves the first (0) or the second (1) half of a long list; it says whether it did.
func halve[T any](list *[]T, which int) bool {
	both := halvesOf(*list)
	if both == nil {
		return false
	}
	*list = both[1-which]
	return true
}

// halveMap is halve of a map's keys, in their order.
func halveMap[K ~string, V any](m map[K]V, which int) bool {
	keys := slices.Sorted(maps.Keys(m))
	kept := slices.Clone(keys)
	if !halve(&kept, which) {
		return false
	}
	for _, k := range keys {
		if !slices.Contains(kept, k) {
			delete(m, k)
		}
	}
	return true
}

// lessOfLists halve one list of a pod; each says whether it did.
func lessOfLists() []func(*corev1.Pod, int) bool {
	return []func(*corev1.Pod, int) bool{
		func(p *corev1.Pod, which int) bool { return halve(&p.Spec.TopologySpreadConstraints, which) },
		func(p *corev1.Pod, which int) bool { return halve(&p.Spec.Tolerations, which) },
		func(p *corev1.Pod, which int) bool { return halve(&p.Spec.Containers[0].Ports, which) },
		func(p *corev1.Pod, which int) bool { return halve(&p.OwnerReferences, which) },
		func(p *corev1.Pod, which int) bool { return halveMap(p.Labels, which) },
		func(p *corev1.Pod, which int) bool { return halveMap(p.Spec.NodeSelector, which) },
		func(p *corev1.Pod, which int) bool { return halveMap(p.Spec.Containers[0].Resources.Requests, which) },
		halvePodTerms,
		halveNodeTerms,
		func(p *corev1.Pod, which int) bool {
			changed := false
			for i := range p.Spec.TopologySpreadConstraints {
				if s := p.Spec.TopologySpreadConstraints[i].LabelSelector; s != nil {
					changed = halve(&s.MatchExpressions, which) || changed
					for k := range s.MatchExpressions {
						changed = halve(&s.MatchExpressions[k].Values, which) || changed
					}
				}
			}
			return changed
		},
	}
}

func halvePodTerms(p *corev1.Pod, which int) bool {
	changed := false
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		changed = halve(&a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, which)
		changed = halve(&a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, which) || changed
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		changed = halve(&a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, which) || changed
		changed = halve(&a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, which) || changed
	}
	return changed
}

func halveNodeTerms(p *corev1.Pod, which int) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return false
	}
	a := p.Spec.Affinity.NodeAffinity
	changed := halve(&a.PreferredDuringSchedulingIgnoredDuringExecution, which)
	var terms []*corev1.NodeSelectorTerm
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(terms, &a.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
	if s := a.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
		changed = halve(&s.NodeSelectorTerms, which) || changed
		for i := range s.NodeSelectorTerms {
			terms = append(terms, &s.NodeSelectorTerms[i])
		}
	}
	for _, t := range terms {
		changed = halve(&t.MatchExpressions, which) || changed
		for i := range t.MatchExpressions {
			changed = halve(&t.MatchExpressions[i].Values, which) || changed
		}
	}
	return changed
}

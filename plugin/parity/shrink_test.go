package parity_test

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// shrinkAtMost is how much CPU goes into making a case smaller: those with hostile pods may take a second for each try.
const shrinkAtMost = time.Minute

// shrink leaves out of the case whatever can be left out while it still fails: whole halves first, then one thing at a time.
func shrink(c *cluster, fails func(*cluster) bool) *cluster {
	end := cputime.Used() + shrinkAtMost
	for again := true; again; {
		again = false
		for _, smaller := range append(halves(c), reductions(c)...) {
			if cputime.Used() > end {
				return c
			}
			if fails(smaller) {
				c, again = smaller, true
				break
			}
		}
	}
	return c
}

// reductions are the cases with one thing less.
func reductions(c *cluster) []*cluster {
	var out []*cluster
	change := func(f func(*cluster)) {
		n := c.clone()
		f(n)
		out = append(out, n)
	}
	for i := range c.pods {
		change(func(n *cluster) { n.pods = slices.Delete(n.pods, i, i+1) })
	}
	for i, node := range c.nodes {
		change(func(n *cluster) {
			n.nodes = slices.Delete(n.nodes, i, i+1)
			n.pods = slices.DeleteFunc(n.pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == node.Name })
		})
	}
	for i := range c.pools {
		change(func(n *cluster) { n.pools = slices.Delete(n.pools, i, i+1) })
	}
	for i := range c.types {
		change(func(n *cluster) { n.types = slices.Delete(n.types, i, i+1) })
	}
	for i := range c.daemonSets {
		change(func(n *cluster) { n.daemonSets = slices.Delete(n.daemonSets, i, i+1) })
	}
	for i := range c.zones {
		if len(c.zones) > 1 {
			change(func(n *cluster) { n.zones = slices.Delete(n.zones, i, i+1) })
		}
	}
	for i := range c.types {
		for _, strip := range []func(*instance){
			func(t *instance) { t.spot = nil }, func(t *instance) { t.sold = nil }, func(t *instance) { t.GPUs = nil },
			func(t *instance) { t.reserved = 0 }, func(t *instance) { t.attach = 0 },
		} {
			if after := c.types[i]; differs(&after, strip) {
				change(func(n *cluster) { n.types[i] = after })
			}
		}
	}
	out = append(out, poolReductions(c)...)
	return append(out, podReductions(c)...)
}

// differs applies strip and says whether it took something off.
func differs(t *instance, strip func(*instance)) bool {
	has := func() [5]bool {
		return [5]bool{t.spot != nil, t.sold != nil, t.GPUs != nil, t.reserved > 0, t.attach > 0}
	}
	had := has()
	strip(t)
	return had != has()
}

func poolReductions(c *cluster) []*cluster {
	var out []*cluster
	change := func(f func(*cluster)) {
		n := c.clone()
		f(n)
		out = append(out, n)
	}
	for i, p := range c.pools {
		for k := range p.Requirements {
			change(func(n *cluster) { n.pools[i].Requirements = slices.Delete(slices.Clone(p.Requirements), k, k+1) })
		}
		if len(p.Taints) > 0 {
			change(func(n *cluster) { n.pools[i].Taints = nil })
		}
		if len(p.Limits) > 0 {
			change(func(n *cluster) { n.pools[i].Limits = nil })
		}
		if p.Weight > 0 {
			change(func(n *cluster) { n.pools[i].Weight = 0 })
		}
		if len(p.Labels) > 1 {
			change(func(n *cluster) { n.pools[i].Labels = map[string]string{"karpenter.sh/nodepool": p.Name} })
		}
	}
	return out
}

// podReductions strip one demand off all pods of an app at once, then off single pods: pods of one class stay alike.
func podReductions(c *cluster) []*cluster {
	var out []*cluster
	for _, one := range simpler() {
		for i, p := range c.pods {
			var n *cluster
			for k, q := range c.pods {
				if k != i && (p.Spec.NodeName != "" || q.Spec.NodeName != "" || q.Labels["app"] != p.Labels["app"]) {
					continue
				}
				if less := q.DeepCopy(); one(&less.Spec, less) {
					if n == nil {
						n = c.clone()
					}
					n.pods[k] = less
				}
			}
			if n != nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// simpler are the ways to make a pod less demanding; each says whether it changed anything.
func simpler() []func(*corev1.PodSpec, *corev1.Pod) bool {
	return []func(*corev1.PodSpec, *corev1.Pod) bool{
		func(s *corev1.PodSpec, _ *corev1.Pod) bool { had := s.Affinity != nil; s.Affinity = nil; return had },
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := s.Affinity != nil && s.Affinity.PodAffinity != nil
			if had {
				s.Affinity.PodAffinity = nil
			}
			return had
		},
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := s.Affinity != nil && s.Affinity.PodAntiAffinity != nil
			if had {
				s.Affinity.PodAntiAffinity = nil
			}
			return had
		},
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := s.Affinity != nil && s.Affinity.NodeAffinity != nil
			if had {
				s.Affinity.NodeAffinity = nil
			}
			return had
		},
		lessAffinityTerms,
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := len(s.TopologySpreadConstraints) > 0
			if had {
				s.TopologySpreadConstraints = s.TopologySpreadConstraints[1:]
			}
			return had
		},
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := len(s.TopologySpreadConstraints) > 1
			if had {
				s.TopologySpreadConstraints = s.TopologySpreadConstraints[:1]
			}
			return had
		},
		plainSpread,
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := s.NodeSelector != nil
			s.NodeSelector = nil
			return had
		},
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := s.Tolerations != nil
			s.Tolerations = nil
			return had
		},
		func(s *corev1.PodSpec, _ *corev1.Pod) bool { had := s.Volumes != nil; s.Volumes = nil; return had },
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := s.InitContainers != nil
			s.InitContainers = nil
			return had
		},
		func(s *corev1.PodSpec, _ *corev1.Pod) bool { had := s.Overhead != nil; s.Overhead = nil; return had },
		func(s *corev1.PodSpec, _ *corev1.Pod) bool { had := s.Priority != nil; s.Priority = nil; return had },
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := len(s.Containers) > 1
			s.Containers = s.Containers[:1]
			return had
		},
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			had := s.Containers[0].Ports != nil
			s.Containers[0].Ports = nil
			return had
		},
		func(s *corev1.PodSpec, _ *corev1.Pod) bool {
			r := &s.Containers[0].Resources
			had := len(r.Requests) > 0
			r.Requests = nil
			return had
		},
		func(_ *corev1.PodSpec, p *corev1.Pod) bool {
			had := p.Annotations != nil
			p.Annotations = nil
			return had
		},
		func(_ *corev1.PodSpec, p *corev1.Pod) bool {
			_, had := p.Labels[plan.LabelGang]
			delete(p.Labels, plan.LabelGang)
			return had
		},
		func(_ *corev1.PodSpec, p *corev1.Pod) bool {
			_, had := p.Labels["version"]
			delete(p.Labels, "version")
			return had
		},
		func(_ *corev1.PodSpec, p *corev1.Pod) bool {
			had := p.Namespace != "default" && p.Spec.Volumes == nil
			if had {
				p.Namespace = "default"
			}
			return had
		},
	}
}

func lessAffinityTerms(s *corev1.PodSpec, _ *corev1.Pod) bool {
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	r := s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(r.NodeSelectorTerms) > 1 {
		r.NodeSelectorTerms = r.NodeSelectorTerms[1:]
		return true
	}
	for i := range r.NodeSelectorTerms {
		if t := &r.NodeSelectorTerms[i]; len(t.MatchExpressions) > 1 {
			t.MatchExpressions = t.MatchExpressions[1:]
			return true
		}
	}
	return false
}

func plainSpread(s *corev1.PodSpec, _ *corev1.Pod) bool {
	changed := false
	for i := range s.TopologySpreadConstraints {
		t := &s.TopologySpreadConstraints[i]
		if t.MinDomains != nil || t.NodeAffinityPolicy != nil || t.NodeTaintsPolicy != nil || t.MatchLabelKeys != nil {
			changed = true
			t.MinDomains, t.NodeAffinityPolicy, t.NodeTaintsPolicy, t.MatchLabelKeys = nil, nil, nil, nil
		}
	}
	return changed
}

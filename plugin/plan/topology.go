package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// countNode adds the pods of a node to the rules, and what they forbid to the classes.
func (re *relations) countNode(ni int) {
	n := &re.in.Nodes[ni]
	if len(re.rules) == 0 && !slices.ContainsFunc(n.Pods, repels) {
		return
	}
	at := nodematch.NodeLabels(n.Name, n.Labels)
	for i := range re.rules {
		r := &re.rules[i]
		v, ok := at[r.key]
		if !ok || r.kind == spread && !re.included(r, n, at) {
			continue
		}
		if r.kind == spread && !r.soft {
			r.domains[v] = true
		}
		re.countPods(r, ni, v)
	}
	for _, p := range n.Pods {
		if repels(p) {
			re.block(p, at)
		}
	}
}

// countPods adds the pods of a node, of which the rule's label has the value, to what the rule counts.
func (re *relations) countPods(r *rule, ni int, v string) {
	pods := re.in.Nodes[ni].Pods
	for k, g := range re.peers.node[ni] {
		if r.groups.Has(g) && (r.kind != spread || pods[k].DeletionTimestamp == nil) {
			r.counts[v]++
			r.total++
		}
		if r.kind == spread && pods[k] == re.in.Classes[r.owner].Pod {
			r.owners[v]++ // Of this batch, planned before.
		}
	}
}

func repels(p *corev1.Pod) bool {
	return p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil
}

// included is the spread's node inclusion policy (KEP-3094).
func (re *relations) included(r *rule, n *Node, at map[string]string) bool {
	if r.soft {
		return true
	}
	c := &re.classes[r.owner]
	for _, s := range c.pod.Spec.TopologySpreadConstraints {
		if _, ok := at[nodematch.NormalKey(s.TopologyKey)]; !ok && s.WhenUnsatisfiable == corev1.DoNotSchedule {
			return false
		}
	}
	if p := r.policy.NodeAffinityPolicy; p == nil || *p == corev1.NodeInclusionPolicyHonor {
		if !slices.ContainsFunc(c.own, func(t catalog.Requirements) bool { _, ok := t.Match(at); return ok }) {
			return false
		}
	}
	if p := r.policy.NodeTaintsPolicy; p != nil && *p == corev1.NodeInclusionPolicyHonor {
		if _, ok := nodematch.Tolerates(c.pod.Spec.Tolerations, n.Taints); !ok {
			return false
		}
	}
	return true
}

// block keeps classes away from where a pod that exists does not tolerate them.
func (re *relations) block(p *corev1.Pod, at map[string]string) {
	for _, t := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		v, ok := at[nodematch.NormalKey(t.TopologyKey)]
		if !ok {
			continue
		}
		r, err := re.termRule(p, &t, true)
		if err != nil {
			continue
		}
		away := re.matched(&r).classes
		for ci := range re.classes {
			c := &re.classes[ci]
			if !away.Has(ci) {
				continue
			}
			if c.blocked == nil {
				c.blocked = map[string]map[string]bool{}
			}
			key := nodematch.NormalKey(t.TopologyKey)
			if c.blocked[key] == nil {
				c.blocked[key] = map[string]bool{}
			}
			c.blocked[key][v] = true
		}
	}
}

// permits says whether n more pods of the class may go to a place; on a new node (fresh) rules by hostname are the
// packing's business.
func (re *relations) permits(p part, at lookup, fresh bool) bool {
	c := &re.concerns[p.class]
	for _, i := range c.owned {
		r := &re.rules[i]
		if fresh && (r.key == corev1.LabelHostname || r.kind == attended) {
			continue
		}
		if v, ok := at(r.key); !r.allows(p, v, ok) {
			return false
		}
	}
	for _, i := range c.yields {
		if v, ok := at(re.rules[i].key); ok && !re.rules[i].staysEven(v, p.n) {
			return false
		}
	}
	return !c.avoided(at, fresh)
}

// staysEven says that n pods more in the domain leave the spread as even as its owner's pods require where they are.
func (r *rule) staysEven(v string, n int) bool {
	least := r.least(v, n)
	for at, owners := range r.owners {
		count := r.counts[at]
		if at == v {
			count += n
		}
		if owners > 0 && count-least > r.maxSkew {
			return false
		}
	}
	return true
}

func (r *rule) allows(p part, v string, ok bool) bool {
	self := 0
	if r.classes.Has(p.class) {
		self = p.n
	}
	switch r.kind {
	case spread:
		return ok && r.counts[v]+self-r.least(v, self-1) <= r.maxSkew
	case affinity, attended:
		return ok && (r.counts[v] > 0 || r.total == 0 && self > 0)
	case antiAffinity:
		if !ok {
			return true
		}
		return (r.owner != p.class || r.counts[v] == 0 && self <= 1) && (self == 0 || r.owners[v] == 0)
	}
	return true
}

// least is the global minimum of a spread, when n more pods are in the domain v. By hostname it is taken as zero where a
// node can be launched.
func (r *rule) least(v string, n int) int {
	if r.key == corev1.LabelHostname && !r.closed || len(r.domains) < r.minDomains {
		return 0
	}
	least := -1
	for d := range r.domains {
		count := r.counts[d]
		if d == v {
			count += max(n, 0)
		}
		if least < 0 || count < least {
			least = count
		}
	}
	return max(least, 0)
}

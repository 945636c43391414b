package relations

import (
	"encoding/binary"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// New reads the constraints of the classes and counts the pods that exist. Constraints with a selector that is not valid are left out. Where
// the budget's context ends meanwhile, not all nodes are counted.
func New(in Input) *Relations {
	re := &Relations{in: in, concerns: make([]concern, len(in.Classes)), blocked: make([]Blocked, len(in.Classes))}
	for ci := range in.Classes {
		if !in.Classes[ci].Excluded {
			re.rules = append(re.rules, in.rulesOf(ci)...)
		}
	}
	re.peers = newPeers(&re.in, len(re.rules) > 0)
	for i := range re.rules {
		r := &re.rules[i]
		r.topologyCounts, r.owners, r.domains = &topologyCounts{counts: map[string]int{}}, map[string]int{}, map[string]bool{}
		r.matched = re.peers.matched(&r.Term)
	}
	for i := range in.Nodes {
		if in.Budget.Cancelled() {
			break
		}
		re.countNode(i)
	}
	joinCounts(re.rules)
	return re
}

// rulesOf returns the rules of a class.
func (in *Input) rulesOf(ci int) []Rule {
	c := &in.Classes[ci]
	out := in.spreadsOf(ci)
	for _, s := range c.SoftSpreads {
		out = append(out, Rule{Term: s.Term, kind: Spread, owner: ci, maxSkew: s.MaxSkew, minDomains: 1, soft: true})
	}
	a := c.Pod.Spec.Affinity
	if a == nil {
		return out
	}
	if a.PodAffinity != nil {
		out = append(out, in.affinityOf(ci, Affinity, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)...)
	}
	if a.PodAntiAffinity != nil {
		out = append(out, in.affinityOf(ci, AntiAffinity, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)...)
	}
	return out
}

// spreadsOf returns the hard spreads of a class.
func (in *Input) spreadsOf(ci int) []Rule {
	var out []Rule
	pod := in.Classes[ci].Pod
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		term, err := SpreadTerm(pod, &c)
		if err != nil {
			continue
		}
		if term.selector.Empty() {
			// The scheduler counts no pod at all for a selector that matches all (countPodsMatchSelector in PodTopologySpread).
			term.inNS = noNamespace()
		}
		r := Rule{Term: term, kind: Spread, owner: ci, maxSkew: int(c.MaxSkew), minDomains: 1, policy: c}
		if c.MinDomains != nil {
			r.minDomains = int(*c.MinDomains)
		}
		out = append(out, r)
	}
	return out
}

// affinityOf returns the rules of required terms. Pods count for affinity only where they match all terms of the owner at once, as the
// scheduler counts them.
func (in *Input) affinityOf(ci int, kind Kind, terms []corev1.PodAffinityTerm) []Rule {
	var own []Term
	for i := range terms {
		if t, err := in.affinityTerm(in.Classes[ci].Pod, &terms[i], kind == AntiAffinity); err == nil {
			own = append(own, t)
		}
	}
	var also []Term
	if kind == Affinity && len(own) > 1 {
		also = own
	}
	out := make([]Rule, len(own))
	for i, t := range own {
		t.also = also
		out[i] = Rule{Term: t, kind: kind, owner: ci}
	}
	return out
}

// countNode adds the pods of a node to the rules, and what they forbid to the classes.
func (re *Relations) countNode(ni int) {
	n := &re.in.Nodes[ni]
	if len(re.rules) == 0 && !slices.ContainsFunc(n.Pods, repels) {
		return
	}
	at := nodematch.NodeLabels(n.Name, n.Labels)
	for i := range re.rules {
		r := &re.rules[i]
		v, ok := at[r.key]
		if !ok || r.kind == Spread && !re.in.includes(r, n, at) {
			continue
		}
		if r.kind == Spread && !r.soft {
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
func (re *Relations) countPods(r *Rule, ni int, v string) {
	pods := re.in.Nodes[ni].Pods
	for k, g := range re.peers.node[ni] {
		if r.groups.Has(g) && (r.kind != Spread || pods[k].DeletionTimestamp == nil) {
			r.counts[v]++
			r.total++
		}
		if r.kind == Spread && pods[k] == re.in.Classes[r.owner].Planned {
			r.owners[v]++ // Of this batch, planned before.
		}
	}
}

// includes reports whether the spread counts the node: it has the labels of all hard spreads of the pod, and the node inclusion policies
// (KEP-3094) allow it.
func (in *Input) includes(r *Rule, n *Node, at map[string]string) bool {
	if r.soft {
		return true
	}
	c := &in.Classes[r.owner]
	for _, s := range c.Pod.Spec.TopologySpreadConstraints {
		if _, ok := at[catalog.NormalKey(s.TopologyKey)]; !ok && s.WhenUnsatisfiable == corev1.DoNotSchedule {
			return false
		}
	}
	if r.HonorsAffinity() && !slices.ContainsFunc(c.NodeAffinity, func(t catalog.Requirements) bool { _, ok := t.Match(at); return ok }) {
		return false
	}
	if r.HonorsTaints() {
		if _, ok := nodematch.Tolerates(c.Pod.Spec.Tolerations, n.Taints); !ok {
			return false
		}
	}
	return true
}

// block keeps classes away from where required anti-affinity of a pod that exists forbids them.
func (re *Relations) block(p *corev1.Pod, at map[string]string) {
	for _, t := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		v, ok := at[catalog.NormalKey(t.TopologyKey)]
		if !ok {
			continue
		}
		term, err := re.in.affinityTerm(p, &t, true)
		if err != nil {
			continue
		}
		re.peers.matched(&term).classes.Each(func(ci int) {
			if re.blocked[ci] == nil {
				re.blocked[ci] = Blocked{}
			}
			if re.blocked[ci][term.key] == nil {
				re.blocked[ci][term.key] = map[string]bool{}
			}
			re.blocked[ci][term.key][v] = true
		})
	}
}

// joinCounts makes rules share counts that will stay equal: of the same key and members, where what exists counts the same.
func joinCounts(rules []Rule) {
	index := map[string]*topologyCounts{}
	var key []byte
	for i := range rules {
		r := &rules[i]
		key = append(binary.AppendUvarint(key[:0], uint64(len(r.key))), r.key...)
		for _, w := range r.classes {
			key = binary.LittleEndian.AppendUint64(key, w)
		}
		key = binary.AppendVarint(key, int64(r.total))
		for _, v := range slices.Sorted(maps.Keys(r.counts)) {
			key = append(binary.AppendVarint(key, int64(r.counts[v])), v...)
			key = append(key, 0)
		}
		t, ok := index[string(key)]
		if !ok {
			t = r.topologyCounts
			t.label = r.key
			index[string(key)] = t
		}
		t.rules++
		r.topologyCounts = t
	}
}

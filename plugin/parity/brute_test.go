package parity_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// candidateName is the name and hostname of each candidate.
const candidateName = "candidate"

// candidate is a node that could be launched beside the plan.
type candidate struct {
	machine
	pool  catalog.NodePool
	offer plan.Offer
}

// nothingLeftOut: with the plan come true there is no node, and no offering of any NodePool within its limits, on which
// the filters would let one more of the unplaced pods be, so that they would still let all others be where they are. To all of them
// a domain that could be launched into counts as empty.
func nothingLeftOut(ctx context.Context, l *lab, o *outcome) []string {
	machines, err := o.final()
	if err != nil {
		return nil // reported by schedulerAgrees
	}
	var out []string
	for _, u := range o.plan.Unplaced {
		pod := o.pending[u.Pods[0].UID]
		if plan.GangOf(pod).Name != "" || len(pod.Spec.ResourceClaims) > 0 || beyondBounds(pod) {
			continue // It may wait for others; see devicesDeclined.
		}
		candidates := o.candidates(pod, o.plan.Claims)
		if on := l.anywhere(ctx, o, pod, surroundings{seen: o.withDomains(pod, machines, candidates, candidateName), nodes: len(machines), candidates: candidates}); on != "" {
			out = append(out, fmt.Sprintf("pod %s is unplaced (%s: %s), but the filters let it be on %s",
				pod.Name, u.Reasons[0].Code, u.Reasons[0].Message, on))
		}
	}
	return out
}

// withDomains adds an empty node for each candidate where the pod counts domains: one that has no node yet counts as empty. A host that does not exist
// is no domain, so the empty nodes have the hostname of the node that the pod is to be on.
func (o *outcome) withDomains(pod *corev1.Pod, machines []machine, candidates []candidate, host string) []machine {
	out := slices.Clone(machines)
	if !spreads(pod) {
		return out
	}
	for i, c := range candidates {
		c.node = newNode(fmt.Sprintf("domain-%d", i), c.node.Labels, c.node.Spec.Taints, catalog.InstanceType{})
		c.node.Labels[corev1.LabelHostname] = host
		c.pods = nil
		out = append(out, c.machine)
	}
	return out
}

// surroundings are the machines that the filters see, of which the first few are nodes that a pod may join, unless it is to have a fresh
// one, and the nodes that could be launched.
type surroundings struct {
	seen       []machine
	nodes      int
	candidates []candidate
	fresh      bool
}

// anywhere is where the pod could be; empty for nowhere.
func (l *lab) anywhere(ctx context.Context, o *outcome, pod *corev1.Pod, among surroundings) string {
	seen, candidates := among.seen, among.candidates
	l.view.set(seen)
	base := l.view.list
	var near []string
	for _, m := range seen[:among.nodes] {
		if !among.fresh && l.refusalNow(ctx, pod, m.node.Name) == "" {
			near = append(near, m.node.Name)
		}
	}
	fits := map[string][]candidate{}
	for _, c := range candidates {
		l.view.list = append(slices.Clip(base), c.info())
		l.view.attach[c.node.Name] = c.attach
		if l.refusalNow(ctx, pod, c.node.Name) == "" {
			fits[c.pool.Name] = append(fits[c.pool.Name], c)
		}
	}
	for _, name := range near {
		if !l.contented(ctx, o, withPod(seen[:among.nodes], pod, name)) {
			continue
		}
		claim := slices.IndexFunc(o.plan.Claims, func(c plan.Claim) bool { return c.Name == name })
		if claim < 0 || !asksForMore(o.state.NodePools[o.plan.Claims[claim].NodePool]) {
			return "node " + name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fits)) {
		c := fits[name][0]
		if keepsMinValues(fits[name]) && l.contented(ctx, o, withPod(append(slices.Clone(seen[:among.nodes]), c.machine), pod, c.node.Name)) {
			return fmt.Sprintf("a new node of pool %s, %s %s %s, team %q, rank %q", name, c.offer.InstanceType, c.offer.Zone,
				c.offer.CapacityType, c.node.Labels["example.com/team"], c.node.Labels["example.com/rank"])
		}
	}
	return ""
}

// contented says that the filters let every planned pod be where it is.
func (l *lab) contented(ctx context.Context, o *outcome, machines []machine) bool {
	for _, m := range machines {
		for _, p := range m.pods {
			if o.pending[string(p.UID)] == nil {
				continue
			}
			seen := withoutPod(machines, p)
			if spreads(p) {
				seen = o.withDomains(p, seen, o.candidates(p, o.plan.Claims), m.node.Labels[corev1.LabelHostname])
			}
			if l.refusal(ctx, seen, p, m.node.Name) != "" {
				return false
			}
		}
	}
	return true
}

// withPod is the machines with the pod on one of them.
func withPod(machines []machine, pod *corev1.Pod, on string) []machine {
	out := slices.Clone(machines)
	for i := range out {
		if out[i].node.Name == on {
			out[i].pods, out[i].known = append(slices.Clone(out[i].pods), pod), nil
		}
	}
	return out
}

// asksForMore says that the pool has minValues: joining a planned node may leave too few alternatives for all.
func asksForMore(pool catalog.NodePool) bool {
	return slices.ContainsFunc(pool.Requirements, func(r catalog.Requirement) bool { return r.MinValues > 1 })
}

func keepsMinValues(list []candidate) bool {
	for _, r := range list[0].pool.Requirements {
		seen := map[string]bool{}
		for _, c := range list {
			if v, ok := c.node.Labels[catalog.NormalKey(r.Key)]; ok {
				seen[v] = true
			}
		}
		if len(seen) < int(r.MinValues) {
			return false
		}
	}
	return true
}

func spreads(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}

// candidates are the nodes that could be launched beside the claims, within limits, with every choice that the pod could want of the
// labels that a pool leaves open.
func (o *outcome) candidates(pod *corev1.Pod, beside []plan.Claim) []candidate {
	var out []candidate
	for _, name := range slices.Sorted(maps.Keys(o.state.NodePools)) {
		pool := o.state.NodePools[name]
		reqs, err := catalog.NewRequirements(normal(pool.Requirements))
		if err != nil || !pool.Ready {
			continue
		}
		for _, it := range o.state.InstanceTypes[pool.NodeClass] {
			if !o.affordable(pool, it, beside) {
				continue
			}
			for _, of := range it.Offerings {
				if !of.Available || of.ReservationID != "" && expected(beside, it.Name, of) >= of.Remaining {
					continue
				}
				for _, labels := range choices(reqs, nodeLabels(pool, it, of), pod) {
					m := o.machine(candidateName, pool, it, labels)
					out = append(out, candidate{machine: m, pool: pool, offer: plan.Offer{InstanceType: it.Name, Zone: of.Zone, CapacityType: of.CapacityType, Price: of.Price}})
				}
			}
		}
	}
	return out
}

func normal(in []catalog.Requirement) []catalog.Requirement {
	out := slices.Clone(in)
	for i := range out {
		out[i].Key = catalog.NormalKey(out[i].Key)
	}
	return out
}

// affordable: the limits have room for one more node of the type beside the nodes of the claims, whichever alternative
// EC2 picks.
func (o *outcome) affordable(pool catalog.NodePool, it catalog.InstanceType, beside []plan.Claim) bool {
	for name, limit := range pool.Limits {
		sum := pool.Usage[name]
		sum = sum.DeepCopy()
		for i := range beside {
			if c := &beside[i]; c.NodePool == pool.Name {
				sum.Add(o.largest(c, name))
			}
		}
		if name == "nodes" {
			sum.Add(quantity(1))
		} else {
			sum.Add(it.Capacity[name])
		}
		if sum.Cmp(limit) > 0 {
			return false
		}
	}
	return true
}

// choices are the label sets that meet the requirements: the labels given, and any value that the pool lists or the pod
// names for the keys that are open.
func choices(reqs catalog.Requirements, labels map[string]string, pod *corev1.Pod) []map[string]string {
	out := []map[string]string{labels}
	for _, key := range slices.Sorted(maps.Keys(reqs)) {
		if v, ok := labels[key]; ok {
			if !reqs[key].Has(v) {
				return nil
			}
			continue
		}
		if wellKnown(key) {
			if !reqs[key].Absent {
				return nil
			}
			continue
		}
		var next []map[string]string
		for _, at := range out {
			if reqs[key].Absent {
				next = append(next, at)
			}
			for _, v := range append(named(pod, key), append(slices.Sorted(maps.Keys(reqs[key].Values)), unnamed(pod, key)...)...) {
				if reqs[key].Has(v) {
					with := maps.Clone(at)
					with[key] = v
					next = append(next, with)
				}
			}
		}
		out = next
	}
	return out
}

// expected counts the claims that are to be launched in the offering.
func expected(claims []plan.Claim, name string, of catalog.Offering) int64 {
	n := int64(0)
	for i := range claims {
		if e := claims[i].Expected; e.InstanceType == name && e.Zone == of.Zone && e.CapacityType == of.CapacityType {
			n++
		}
	}
	return n
}

// unnamed are values that nobody names, for a key of which a pool takes any value. To a spread over the key they are one
// domain, however many there could be.
func unnamed(pod *corev1.Pod, key string) []string {
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == key }) {
		return nil
	}
	return []string{"4", "other"}
}

// wellKnown labels are the launcher's to set, never a pod's.
func wellKnown(key string) bool { return key[:min(len(key), 12)] != "example.com/" }

// named are the values that the pod mentions for the key.
func named(pod *corev1.Pod, key string) []string {
	var out []string
	if v, ok := pod.Spec.NodeSelector[key]; ok {
		out = append(out, v)
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				if e.Key == key {
					out = append(out, e.Values...)
				}
			}
		}
	}
	return out
}

package parity_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// sameForSame: the same objects give the same plan, in whatever order they come.
func sameForSame(ctx context.Context, l *lab, o *outcome) []string {
	again, err := l.solve(ctx, o.c)
	if err != nil {
		return []string{err.Error()}
	}
	if a, b := fmt.Sprintf("%+v", o.plan), fmt.Sprintf("%+v", again.plan); a != b {
		return []string{"planned twice, the same input gives two plans", a, b}
	}
	shuffled := o.c.clone()
	d := rand.New(rand.NewPCG(uint64(len(o.c.pods)), 1))
	d.Shuffle(len(shuffled.pods), func(i, j int) { swap(shuffled.pods, i, j) })
	d.Shuffle(len(shuffled.types), func(i, j int) { swap(shuffled.types, i, j) })
	d.Shuffle(len(shuffled.pools), func(i, j int) { swap(shuffled.pools, i, j) })
	d.Shuffle(len(shuffled.nodes), func(i, j int) { swap(shuffled.nodes, i, j) })
	d.Shuffle(len(shuffled.daemonSets), func(i, j int) { swap(shuffled.daemonSets, i, j) })
	d.Shuffle(len(shuffled.zones), func(i, j int) { swap(shuffled.zones, i, j) })
	if again, err = l.solve(ctx, shuffled); err != nil {
		return []string{err.Error()}
	}
	if a, b := o.shape(), again.shape(); a != b {
		return []string{"the order of the input changes the plan", a, b}
	}
	return nil
}

func swap[T any](list []T, i, j int) { list[i], list[j] = list[j], list[i] }

// shape is the plan without names of pods and claims, which may differ among equals.
func (o *outcome) shape() string {
	members := func(list []plan.Member) string {
		var out []string
		for _, m := range list {
			out = append(out, fmt.Sprintf("%s x%d", o.in.Classes[m.Class].Key[:6], len(m.Pods)))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	var out []string
	for _, c := range o.plan.Claims {
		out = append(out, fmt.Sprintf("%s %s %s %s: %s", c.NodePool, c.Expected.InstanceType, c.Expected.Zone, c.Expected.CapacityType, members(c.Members)))
	}
	for _, p := range o.plan.Placements {
		out = append(out, fmt.Sprintf("on %s: %s", p.Node, members(p.Members)))
	}
	for _, u := range o.plan.Unplaced {
		out = append(out, fmt.Sprintf("unplaced %s", members([]plan.Member{{Class: u.Class, Pods: u.Pods}})))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// heavierFirst: no pod is on a new node of a NodePool while one of higher weight would take it, and all others could stay. Preferences may choose a
// lighter pool, as with Karpenter: they are tried as if required first.
func heavierFirst(ctx context.Context, l *lab, o *outcome) []string {
	machines, err := o.final()
	if err != nil {
		return nil // reported by schedulerAgrees
	}
	if o.c.preferenceShare > 0 {
		return nil
	}
	var out []string
	for i := range o.plan.Claims {
		c := &o.plan.Claims[i]
		for _, m := range c.Members {
			pod := o.pending[m.Pods[0].UID]
			better := slices.DeleteFunc(o.candidates(pod, o.plan.Claims), func(x candidate) bool {
				return x.pool.Weight <= o.state.NodePools[c.NodePool].Weight
			})
			if len(better) == 0 || len(o.state.NodePools) == 1 {
				continue
			}
			among := surroundings{seen: o.withDomains(pod, withoutPod(machines, pod), better, candidateName), nodes: len(machines), candidates: better, fresh: true}
			if on := l.anywhere(ctx, o, pod, among); on != "" {
				out = append(out, fmt.Sprintf("pod %s is on %s of pool %s, but could be on %s", pod.Name, c.Name, c.NodePool, on))
			}
		}
	}
	return out
}

// importantFirst: where NodePools have limits, no pod is unplaced that could be placed if the pods of lower priority had
// not been.
func importantFirst(ctx context.Context, l *lab, o *outcome) []string {
	var out []string
	if !slices.ContainsFunc(o.c.pools, func(p catalog.NodePool) bool { return len(p.Limits) > 0 }) {
		return nil
	}
	for _, u := range o.plan.Unplaced {
		pod := o.pending[u.Pods[0].UID]
		lesser := func(p *corev1.Pod) bool { return priority(p) < priority(pod) }
		if plan.GangOf(pod).Name != "" || len(pod.Spec.ResourceClaims) > 0 || beyondBounds(pod) || !slices.ContainsFunc(slices.Collect(maps.Values(o.pending)), lesser) {
			continue
		}
		less := *o
		less.plan.Claims, less.plan.Placements = nil, nil
		for _, c := range o.plan.Claims {
			if c.Members = o.withoutLesser(c.Members, lesser); len(c.Members) > 0 {
				less.plan.Claims = append(less.plan.Claims, c)
			}
		}
		for _, p := range o.plan.Placements {
			p.Members = o.withoutLesser(p.Members, lesser)
			less.plan.Placements = append(less.plan.Placements, p)
		}
		machines, err := less.final()
		if err != nil {
			continue // reported by schedulerAgrees
		}
		candidates := less.candidates(pod, less.plan.Claims)
		if on := l.anywhere(ctx, &less, pod, surroundings{seen: less.withDomains(pod, machines, candidates, candidateName), nodes: len(machines), candidates: candidates}); on != "" {
			out = append(out, fmt.Sprintf("pod %s of priority %d is unplaced (%s), but without the pods of lower priority could be on %s",
				pod.Name, priority(pod), u.Reasons[0].Message, on))
		}
	}
	return out
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func (o *outcome) withoutLesser(in []plan.Member, lesser func(*corev1.Pod) bool) []plan.Member {
	return slices.DeleteFunc(slices.Clone(in), func(m plan.Member) bool { return lesser(o.in.Classes[m.Class].Pod) })
}

// gangsWhole: of a gang, all pods that it needs have a node, or none.
func gangsWhole(_ context.Context, _ *lab, o *outcome) []string {
	size, placed, all := map[string]int{}, map[string]int{}, map[string]int{}
	for _, p := range o.c.pods {
		g := plan.GangOf(p)
		size[g.Name] = max(size[g.Name], g.Size)
		all[g.Name]++
		if p.Spec.NodeName != "" {
			placed[g.Name]++
		}
	}
	running := maps.Clone(placed)
	count := func(list []plan.Member) {
		for _, p := range o.members(list) {
			placed[plan.GangOf(p).Name]++
		}
	}
	for _, c := range o.plan.Claims {
		count(c.Members)
	}
	for _, p := range o.plan.Placements {
		count(p.Members)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		want := cmp.Or(size[name], all[name])
		if name != "" && placed[name] > running[name] && placed[name] < want {
			out = append(out, fmt.Sprintf("gang %s: %d of %d pods have a node", name, placed[name], want))
		}
	}
	return out
}

// preferencesArePriced: they cost no more than their share.
func preferencesArePriced(_ context.Context, _ *lab, o *outcome) []string {
	p := o.plan
	if p.PlainCostPerHour > 0 && p.CostPerHour > p.PlainCostPerHour*(1+o.c.preferenceShare)+cent {
		return []string{fmt.Sprintf("the bill is %.4f with preferences and %.4f without", p.CostPerHour, p.PlainCostPerHour)}
	}
	return nil
}

// claimsAreTrue: what a claim says of its node is what the node will be.
func claimsAreTrue(_ context.Context, _ *lab, o *outcome) []string {
	var out []string
	for i := range o.plan.Claims {
		c := &o.plan.Claims[i]
		m, err := o.launched(c, c.Expected)
		if err != nil {
			continue // reported by schedulerAgrees
		}
		for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
			if v, ok := m.node.Labels[k]; k != corev1.LabelHostname && (!ok || v != c.Labels[k]) {
				out = append(out, fmt.Sprintf("claim %s: label %s=%q, the node has %q", c.Name, k, c.Labels[k], v))
			}
		}
		m.pods = append(m.pods, o.members(c.Members)...)
		used := m.info().Requested
		if asked := c.Requests[corev1.ResourceCPU]; asked.MilliValue() != used.MilliCPU {
			out = append(out, fmt.Sprintf("claim %s: requests %s of CPU, its pods %dm", c.Name, asked.String(), used.MilliCPU))
		}
		if asked := c.Requests[corev1.ResourceMemory]; asked.Value() != used.Memory {
			out = append(out, fmt.Sprintf("claim %s: requests %s of memory, its pods %d", c.Name, asked.String(), used.Memory))
		}
		if asked := c.Requests[corev1.ResourcePods]; asked.Value() != int64(len(m.pods)) {
			out = append(out, fmt.Sprintf("claim %s: requests %s pods, it has %d", c.Name, asked.String(), len(m.pods)))
		}
	}
	return out
}

package parity_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// impossible says that no node can have so much, or that it is less than nothing: a request must be from 0 to 2^53 units, less than that,
// which are thousandths for CPU.
func impossible(name corev1.ResourceName, q resource.Quantity) bool {
	most := resource.MustParse("9007199254740991")
	if name == corev1.ResourceCPU {
		most = resource.MustParse("9007199254740.991")
	}
	return q.Sign() < 0 || q.Cmp(most) > 0
}

// ask is a request, and what a message about it must name.
type ask struct {
	of   string
	name corev1.ResourceName
	q    resource.Quantity
}

// asks are the single requests of a pod.
func asks(s *corev1.PodSpec) []ask {
	var out []ask
	add := func(of string, list corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			out = append(out, ask{of, name, list[name]})
		}
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		add("container "+c.Name, c.Resources.Requests)
	}
	add("overhead", s.Overhead)
	if s.Resources != nil {
		add("the pod", s.Resources.Requests)
	}
	return out
}

// impossibleAsks are the requests of a pod that no node can meet: single ones, or the sum of its containers.
func impossibleAsks(s *corev1.PodSpec) []ask {
	out := slices.DeleteFunc(asks(s), func(a ask) bool { return !impossible(a.name, a.q) })
	sum := plan.PodRequests(&corev1.Pod{Spec: *s})
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		if impossible(name, sum[name]) {
			out = append(out, ask{"in sum", name, sum[name]})
		}
	}
	return out
}

// impossibleRefused: the pods that ask for what no node can have are unplaced, by a reason that names the container and the resource, and
// no others are for that reason.
func impossibleRefused(_ context.Context, _ *lab, o *outcome) []string {
	var out []string
	for _, u := range o.plan.Unplaced {
		pod := o.pending[u.Pods[0].UID]
		bad := impossibleAsks(&pod.Spec)
		at := slices.IndexFunc(u.Reasons, func(r plan.Reason) bool { return r.Code == "InvalidPod" })
		switch {
		case at < 0 && len(bad) > 0 && len(pod.Spec.ResourceClaims) == 0:
			out = append(out, fmt.Sprintf("pod %s, %s, asks for %s of %s: %+v", pod.Name, bad[0].of, bad[0].q.String(), bad[0].name, u.Reasons))
		case at >= 0 && !slices.ContainsFunc(bad, func(a ask) bool {
			return strings.Contains(u.Reasons[at].Message, a.of) && strings.Contains(u.Reasons[at].Message, string(a.name))
		}):
			out = append(out, fmt.Sprintf("pod %s asks for %+v: %s", pod.Name, asks(&pod.Spec), u.Reasons[at].Message))
		}
	}
	placed := func(list []plan.Member) {
		for _, p := range o.members(list) {
			if bad := impossibleAsks(&p.Spec); len(bad) > 0 {
				out = append(out, fmt.Sprintf("pod %s has a node, and asks for %s of %s", p.Name, bad[0].q.String(), bad[0].name))
			}
		}
	}
	for _, c := range o.plan.Claims {
		placed(c.Members)
	}
	for _, p := range o.plan.Placements {
		placed(p.Members)
	}
	return out
}

func nothingNegative(_ context.Context, _ *lab, o *outcome) []string {
	var out []string
	for _, c := range o.plan.Claims {
		for _, name := range slices.Sorted(maps.Keys(c.Requests)) {
			if q := c.Requests[name]; q.Sign() < 0 {
				out = append(out, fmt.Sprintf("claim %s requests %s of %s", c.Name, q.String(), name))
			}
		}
	}
	return out
}

// othersPlaced: as many pods of other namespaces have a node as if the hostile ones were not there, where they have nothing to share.
func othersPlaced(ctx context.Context, l *lab, o *outcome) []string {
	if !o.c.hostile() || shares(o.c) {
		return nil
	}
	without, err := l.solve(ctx, o.c.innocent())
	if err != nil {
		return []string{err.Error()}
	}
	if with, alone := o.unplaced(), without.unplaced(); !slices.Equal(with, alone) {
		return []string{fmt.Sprintf("without hostile pods %q are unplaced, with them %q", alone, with)}
	}
	return nil
}

// unplaced are the pods that are not hostile and have no node, of equal ones the first.
func (o *outcome) unplaced() []string {
	var out []string
	for _, u := range o.plan.Unplaced {
		if first := o.pending[u.Pods[0].UID]; !hostile(first) {
			out = append(out, fmt.Sprintf("%s x%d", o.in.Classes[u.Class].Key[:6], len(u.Pods)))
		}
	}
	slices.Sort(out)
	return out
}

// shares says that hostile pods can take what others need: free room, limits and reservations, or that affinity relates them. The pods of
// a DaemonSet take room from all.
func shares(c *cluster) bool {
	if len(c.nodes) > 0 {
		return true
	}
	for _, ds := range c.daemonSets {
		if ds.Namespace == hostileNamespace && len(impossibleAsks(&ds.Spec.Template.Spec)) == 0 {
			return true
		}
	}
	for _, p := range c.pools {
		if len(p.Limits) > 0 {
			return true
		}
	}
	for i := range c.types {
		if c.types[i].reserved > 0 {
			return true
		}
	}
	return slices.ContainsFunc(c.pods, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(termsOf(p), func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil })
	})
}

// termsOf are all terms of a pod's affinity to pods.
func termsOf(p *corev1.Pod) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	a := p.Spec.Affinity
	if a == nil {
		return nil
	}
	var preferred []corev1.WeightedPodAffinityTerm
	if a.PodAffinity != nil {
		out = append(out, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		out = append(out, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, t := range preferred {
		out = append(out, t.PodAffinityTerm)
	}
	return out
}

// beyondBounds says that the planner declines the pod, or what it asks for, by a bound of its input: docs/planning.md lists them.
func beyondBounds(p *corev1.Pod) bool {
	hard := 0
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			hard++
		}
	}
	apart, near := 0, 0
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		near = len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		apart = len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return len(impossibleAsks(&p.Spec)) > 0 || max(hard, near, apart) > 128
}

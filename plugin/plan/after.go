package plan

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// after is the input with the first plan come true, for the pods that are left.
func (s *second) after(left []int) Input {
	in, p := s.in, s.first
	in.second = true
	in.Rejected = slices.Clone(in.Rejected)
	in.Classes = slices.Clone(in.Classes)
	for ci := range in.Classes {
		in.Classes[ci].Pods = nil
	}
	for _, u := range p.Unplaced {
		in.Classes[u.Class].Pods = slices.Clip(u.Pods[:left[u.Class]])
	}
	in.Nodes = slices.Clone(in.Nodes)
	at := make(map[string]int, len(in.Nodes))
	for i := range in.Nodes {
		at[in.Nodes[i].Name] = i
	}
	for _, pl := range p.Placements {
		n := &in.Nodes[at[pl.Node]]
		n.Pods, n.Free, n.Attachable = slices.Clone(n.Pods), n.Free.DeepCopy(), maps.Clone(n.Attachable)
		s.put(n, pl.Members, true)
	}
	pools := maps.Clone(in.Catalog.NodePools)
	for i := range p.Claims {
		c := &p.Claims[i]
		in.Nodes = append(in.Nodes, s.planned(i))
		np := pools[c.NodePool]
		np.Usage = s.usage(np, c)
		pools[c.NodePool] = np
		in.Rejected = append(in.Rejected, s.bars(i)...)
	}
	in.Catalog.NodePools = pools
	in.Catalog.InstanceTypes = in.remaining(p.Claims)
	return in
}

// put adds the members to the pods of the node, and if counted takes them off what it has.
func (s *second) put(n *Node, members []Member, counted bool) {
	for _, m := range members {
		class := &s.in.Classes[m.Class]
		for _, v := range class.Volumes {
			if have, limited := n.Attachable[v.Driver]; limited {
				n.Attachable[v.Driver] = have - attaching(n, class.Pod, v.Claim, len(m.Pods))
			}
		}
		for range m.Pods {
			n.Pods = append(n.Pods, class.Pod)
		}
		if !counted {
			continue
		}
		requests := PodRequests(class.Pod).DeepCopy()
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
		for name, q := range requests {
			if have, ok := n.Free[name]; ok {
				q.Mul(int64(len(m.Pods)))
				have.Sub(q)
				n.Free[name] = have
			}
		}
	}
}

// attaching is how many volumes the node attaches for the volume claim of so many pods more.
func attaching(n *Node, pod *corev1.Pod, claim string, pods int) int64 {
	if !claims(pod, claim) {
		return int64(pods)
	}
	if slices.ContainsFunc(n.Pods, func(p *corev1.Pod) bool { return p.Namespace == pod.Namespace && claims(p, claim) }) {
		return 0
	}
	return 1
}

// planned is the node of a claim, with its pods and daemon pods.
func (s *second) planned(i int) Node {
	c := &s.first.Claims[i]
	n := Node{Name: plannedPrefix + strconv.Itoa(i), Labels: c.Labels, Taints: c.Taints, Free: c.Allocatable.DeepCopy()}
	for _, it := range s.in.Catalog.TypesOf(c.NodePool) {
		if it.Name == c.Expected.InstanceType {
			n.Attachable = attachLimits(&it)
		}
	}
	s.put(&n, c.Members, false)
	for name, q := range c.Requests {
		if have, ok := n.Free[name]; ok {
			have.Sub(q)
			n.Free[name] = have
		}
	}
	if limit := s.nodeLimit(); limit > 0 {
		most, have := *resource.NewQuantity(max(limit-int64(len(n.Pods)), 0), resource.DecimalSI), n.Free[corev1.ResourcePods]
		if most.Cmp(have) < 0 {
			n.Free[corev1.ResourcePods] = most
		}
	}
	at := nodematch.NodeLabels(n.Name, n.Labels)
	for _, d := range s.daemons() {
		_, ok := nodematch.Tolerates(d.pod.Spec.Tolerations, c.Taints)
		if ok && slices.ContainsFunc(d.terms, func(t catalog.Requirements) bool { _, ok := t.Match(at); return ok }) {
			n.Pods = append(n.Pods, d.pod)
		}
	}
	return n
}

// daemon is a pod of a DaemonSet, with the node affinity that it requires.
type daemon struct {
	pod   *corev1.Pod
	terms []catalog.Requirements
}

// daemons are those of the DaemonSets whose pods can run. They are read once for all planned nodes.
func (s *second) daemons() []daemon {
	if s.read {
		return s.daemonsRead
	}
	s.read = true
	for _, ds := range s.in.DaemonSets {
		pod := &corev1.Pod{ObjectMeta: ds.Spec.Template.ObjectMeta, Spec: ds.Spec.Template.Spec}
		pod.Namespace, pod.Name = ds.Namespace, ds.Name
		if terms, err := nodematch.PodRequirements(pod); err == nil && InvalidRequest(pod) == "" {
			s.daemonsRead = append(s.daemonsRead, daemon{pod, terms})
		}
	}
	return s.daemonsRead
}

// nodeLimit is Options.NodeShare of the whole input; 0 for any number.
func (s *second) nodeLimit() int64 {
	share := s.in.Options.NodeShare
	if share <= 0 || share >= 1 {
		return 0
	}
	return max(int64(share*float64(podsOf(s.in))), 1)
}

// usage adds to what counts against the pool's limits the largest node that the claim may become.
func (s *second) usage(np catalog.NodePool, c *Claim) corev1.ResourceList {
	out := np.Usage.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name := range np.Limits {
		most := *resource.NewQuantity(1, resource.DecimalSI)
		switch name {
		case "nodes":
		case catalog.LimitUSD:
			most = c.LimitedUSD(s.in.Catalog)
		default:
			most = resource.Quantity{}
			for _, it := range s.in.Catalog.InstanceTypes[np.TypesKey()] {
				if q := it.Capacity[name]; slices.Contains(c.Alternatives, it.Name) && q.Cmp(most) > 0 {
					most = q
				}
			}
		}
		sum := out[name]
		sum.Add(most)
		out[name] = sum
	}
	return out
}

// LimitedUSD returns what the claim's node counts against a limit in USD: the offering that is expected. The launcher leaves no other one to EC2 for which
// the limit has no room.
func (c *Claim) LimitedUSD(cat catalog.State) resource.Quantity {
	pool, types := cat.NodePools[c.NodePool], map[string]catalog.InstanceType{}
	for _, it := range cat.TypesOf(c.NodePool) {
		if it.Name == c.Expected.InstanceType {
			types[it.Name] = it
		}
	}
	micro, _ := catalog.Prices{Types: types, Declared: pool.Declared}.At(c.Expected.InstanceType, c.Expected.Zone, c.Expected.CapacityType)
	return catalog.USDQuantity(micro)
}

// bars are the verdicts of the filters that concern the claim, as if it existed.
func (s *second) bars(i int) []Rejection {
	c := &s.first.Claims[i]
	on := map[string]bool{}
	for _, m := range c.Members {
		on[s.in.Classes[m.Class].Key] = true
	}
	var out []Rejection
	bar := func(key, why string) {
		out = append(out, Rejection{ClassKey: key, Node: plannedPrefix + strconv.Itoa(i), Reason: why})
	}
	is := func(want, have string) bool { return want == "" || want == have }
	for _, r := range s.in.Rejected {
		switch {
		case r.plain():
			if is(r.NodePool, c.NodePool) && is(r.InstanceType, c.Expected.InstanceType) && is(r.Zone, c.Expected.Zone) && is(r.CapacityType, c.Expected.CapacityType) {
				bar(r.ClassKey, r.Reason)
			}
		case slices.ContainsFunc(r.With, func(k string) bool { return on[k] }):
			bar(r.ClassKey, r.Reason)
		case on[r.ClassKey]:
			for _, k := range r.With {
				bar(k, r.Reason)
			}
		}
	}
	return out
}

// fewClasses is how many classes may be left for those alone to be compiled that have to do with them.
const fewClasses = 64

// concerned returns the classes, by index, that a plan for those that are left has to know: themselves, the rest of their gangs, and those
// that spread over domains and count them. To the others the pods that have nodes are neighbours like any that exist.
func (s *second) concerned(left []int) []int {
	var keep, waiting []int
	gangs := map[string]bool{}
	for ci, n := range left {
		if n > 0 {
			waiting = append(waiting, ci)
			gangs[GangOf(s.in.Classes[ci].Pod).Name] = true
		}
	}
	delete(gangs, "")
	for ci := range s.in.Classes {
		c := &s.in.Classes[ci]
		if left[ci] > 0 || len(waiting) > fewClasses || gangs[GangOf(c.Pod).Name] || slices.ContainsFunc(waiting, func(o int) bool { return c.spreadsOver(s.in.Classes[o].Pod) }) {
			keep = append(keep, ci)
		}
	}
	return keep
}

// spreadsOver reports whether a topology spread that pods of the class require counts the other pod.
func (c *Class) spreadsOver(other *corev1.Pod) bool {
	constraints := c.Pod.Spec.TopologySpreadConstraints
	if len(constraints) == 0 {
		constraints = c.DefaultSpread
	}
	return c.Pod.Namespace == other.Namespace && slices.ContainsFunc(constraints, func(t corev1.TopologySpreadConstraint) bool {
		term, err := relations.SpreadTerm(c.Pod, &t)
		return err == nil && t.WhenUnsatisfiable == corev1.DoNotSchedule && term.Matches(other)
	})
}

// subset returns the elements with these indexes.
func subset[T any](list []T, at []int) []T {
	out := make([]T, len(at))
	for i, x := range at {
		out[i] = list[x]
	}
	return out
}

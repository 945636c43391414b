package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Explain prints where a pod, given as namespace/name, is placed, why there and for how much, or the reason of each NodePool that
// does not run it. Without a name it explains all pods that cannot be placed. It returns an error if the input has no such pod.
func (o *Outcome) Explain(ctx context.Context, w io.Writer, pod string) error {
	if pod == "" {
		o.explainAll(w)
		return nil
	}
	claim := func(w io.Writer, pod string) bool { return o.explainClaim(ctx, w, pod) }
	for _, explain := range []func(io.Writer, string) bool{
		o.explainHeld, o.explainUnplaced, claim, o.explainPlacement, o.explainBound,
	} {
		if explain(w, pod) {
			return nil
		}
	}
	return fmt.Errorf("pod %s is not in the input", pod)
}

func (o *Outcome) explainAll(w io.Writer) {
	for _, h := range o.Held {
		o.explainHeld(w, h.Pod)
	}
	for _, u := range o.Plan.Unplaced {
		names := make([]string, len(u.Pods))
		for i, ref := range u.Pods {
			names[i] = nameOf(ref)
		}
		fmt.Fprintf(w, "%s: cannot be placed\n", someOf(names))
		o.reasons(w, u)
	}
	placed := 0
	for _, c := range o.Plan.Claims {
		placed += len(podsOf(c.Members))
	}
	for _, p := range o.Plan.Placements {
		placed += len(podsOf(p.Members))
	}
	how := ""
	if placed > 0 {
		how = ": with pod NAMESPACE/NAME this command says where one goes and why"
	}
	fmt.Fprintf(w, "%s placed%s\n", catalog.CountText(placed, "pod"), how)
}

func nameOf(ref catalog.PodRef) string { return ref.Namespace + "/" + ref.Name }

func (o *Outcome) explainHeld(w io.Writer, pod string) bool {
	i := slices.IndexFunc(o.Held, func(h Held) bool { return h.Pod == pod })
	if i < 0 {
		return false
	}
	fmt.Fprintf(w, "Pod %s: not planned\n  %s\n", pod, o.Held[i].Reason)
	return true
}

func (o *Outcome) explainUnplaced(w io.Writer, pod string) bool {
	for _, u := range o.Plan.Unplaced {
		if !slices.ContainsFunc(u.Pods, func(ref catalog.PodRef) bool { return nameOf(ref) == pod }) {
			continue
		}
		fmt.Fprintf(w, "Pod %s: cannot be placed\n", pod)
		o.asks(w, u.Class)
		o.reasons(w, u)
		return true
	}
	return false
}

// reasons prints a line for each NodePool.
func (o *Outcome) reasons(w io.Writer, u plan.Unplaced) {
	for _, r := range reasonsOf(u.Reasons) {
		fmt.Fprintf(w, "  %s\n", r)
	}
	if o.Plan.Ignored == nil {
		return
	}
	o.ignored(w, u.Class)
}

// asks prints what the pods of a class request.
func (o *Outcome) asks(w io.Writer, class int) {
	requests := plan.PodRequests(o.Input.Classes[class].Pod)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q := requests[name]
		parts = append(parts, q.String()+" "+string(name))
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "  It asks for %s.\n", strings.Join(parts, ", "))
	}
	if why := o.Input.Classes[class].OffSpot; why != "" {
		fmt.Fprintf(w, "  It may not run on spot: %s.\n", why)
	}
}

// ignored prints the preferences of a class that are not kept.
func (o *Outcome) ignored(w io.Writer, class int) {
	for _, p := range o.Plan.Ignored {
		if p.Class == class {
			fmt.Fprintf(w, "  Not kept: %s: %s\n", p.Preference, p.Reason)
		}
	}
}

// explainClaim explains a pod on a node to launch.
func (o *Outcome) explainClaim(ctx context.Context, w io.Writer, pod string) bool {
	for i := range o.Plan.Claims {
		c := &o.Plan.Claims[i]
		at, class := memberOf(c.Members, pod)
		if at < 0 {
			continue
		}
		fmt.Fprintf(w, "Pod %s: on a new node, %s\n", pod, c.Name)
		o.asks(w, class)
		e := c.Expected
		fmt.Fprintf(w, "  Node: %s, %s in %s, %.4f USD per hour, NodePool %s\n", e.InstanceType, e.CapacityType, e.Zone, e.Price, c.NodePool)
		fmt.Fprintf(w, "  Its price: %s\n", c.Cost)
		if c.Covered != "" {
			fmt.Fprintf(w, "  Commitment %s pays for the instance: its price is what the planner counts for what it uses of it\n", c.Covered)
		}
		if c.PassedOver != "" {
			fmt.Fprintf(w, "  Not chosen: %s\n", c.PassedOver)
		}
		o.whyNode(ctx, w, c, class)
		o.ignored(w, class)
		o.otherPools(ctx, w, class, c.NodePool)
		return true
	}
	return false
}

func memberOf(members []plan.Member, pod string) (at, class int) {
	for i, m := range members {
		if slices.ContainsFunc(m.Pods, func(ref catalog.PodRef) bool { return nameOf(ref) == pod }) {
			return i, m.Class
		}
	}
	return -1, -1
}

// whyNode prints what else is on the node, the pod's part of its price, and what the pod would cost alone.
func (o *Outcome) whyNode(ctx context.Context, w io.Writer, c *plan.Claim, class int) {
	n := len(podsOf(c.Members))
	switch n {
	case 1:
		fmt.Fprintf(w, "  It has the node to itself")
	default:
		fmt.Fprintf(w, "  It shares the node with %s", catalog.CountText(n-1, "more pod"))
	}
	g := newGroup()
	g.add(c)
	fmt.Fprintf(w, "; %s of cpu and %s of memory are asked for, daemon pods included.\n", g.share(corev1.ResourceCPU), g.share(corev1.ResourceMemory))
	share, name := largestShare(plan.PodRequests(o.Input.Classes[class].Pod), c.Allocatable)
	if n > 1 {
		fmt.Fprintf(w, "  Its part of the price is %.4f USD per hour, by its %s (%.0f%% of the node).\n", share*c.Expected.Price, name, 100*share)
		if alone, _, ok := o.alone(ctx, class, ""); ok {
			fmt.Fprintf(w, "  Alone it would need a node of at least %.4f USD per hour: %s (%s in %s).\n",
				alone.Expected.Price, alone.Expected.InstanceType, alone.Expected.CapacityType, alone.Expected.Zone)
		}
	}
	if others := slices.DeleteFunc(slices.Clone(c.Alternatives), func(t string) bool { return t == c.Expected.InstanceType }); len(others) > 0 {
		fmt.Fprintf(w, "  If EC2 has none, %s would do: %s\n", catalog.CountText(len(others), "other instance type"), someOf(others))
	}
}

// largestShare returns the resource of which the requests take the largest share.
func largestShare(requests, have corev1.ResourceList) (share float64, name corev1.ResourceName) {
	share, name = 1/max(have.Pods().AsApproximateFloat64(), 1), corev1.ResourcePods
	for _, r := range slices.Sorted(maps.Keys(requests)) {
		asked, total := requests[r], have[r]
		if t := total.AsApproximateFloat64(); t > 0 && asked.AsApproximateFloat64()/t > share {
			share, name = asked.AsApproximateFloat64()/t, r
		}
	}
	return share, name
}

// otherPools prints what the other NodePools would launch for the pod.
func (o *Outcome) otherPools(ctx context.Context, w io.Writer, class int, chosen string) {
	pools := slices.SortedFunc(maps.Values(o.Input.Catalog.NodePools), func(a, b catalog.NodePool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Name, b.Name))
	})
	for _, p := range pools {
		if p.Name == chosen {
			continue
		}
		claim, why, ok := o.alone(ctx, class, p.Name)
		switch mine := o.Input.Catalog.NodePools[chosen].Weight; {
		case !ok:
			fmt.Fprintf(w, "  NodePool %s: %s\n", p.Name, why)
		case p.Weight < mine:
			fmt.Fprintf(w, "  NodePool %s: would run it, alone on %s for %.4f USD per hour, but has a lower weight (%d) than %s (%d)\n",
				p.Name, claim.Expected.InstanceType, claim.Expected.Price, p.Weight, chosen, mine)
		default:
			fmt.Fprintf(w, "  NodePool %s: would run it, alone on %s for %.4f USD per hour\n", p.Name, claim.Expected.InstanceType, claim.Expected.Price)
		}
	}
}

// alone plans one pod of the class by itself onto a new node, of the given NodePool, or of any if the name is empty.
func (o *Outcome) alone(ctx context.Context, class int, pool string) (claim plan.Claim, why string, ok bool) {
	in := o.Input
	one := in.Classes[class]
	one.Pods = one.Pods[:1]
	in.Classes, in.PreferenceShare, in.NewName = []plan.Class{one}, 0, nil
	// The existing nodes count as neighbors, and take no pods.
	in.Nodes = slices.Clone(in.Nodes)
	for i := range in.Nodes {
		in.Nodes[i].Free = nil
	}
	if pool != "" {
		in.Catalog.NodePools = map[string]catalog.NodePool{pool: in.Catalog.NodePools[pool]}
	}
	p := plan.Make(ctx, in)
	if len(p.Claims) == 0 {
		why = "it would not run it"
		if len(p.Unplaced) > 0 && len(p.Unplaced[0].Reasons) > 0 {
			why = p.Unplaced[0].Reasons[0].Message
		}
		return plan.Claim{}, why, false
	}
	return p.Claims[0], "", true
}

// explainPlacement explains a pod that is placed on an existing node.
func (o *Outcome) explainPlacement(w io.Writer, pod string) bool {
	for _, p := range o.Plan.Placements {
		at, class := memberOf(p.Members, pod)
		if at < 0 {
			continue
		}
		fmt.Fprintf(w, "Pod %s: on %s\n", pod, roomOf(p))
		o.asks(w, class)
		fmt.Fprintln(w, "  Room that is there is used before anything is launched: it costs nothing more.")
		o.ignored(w, class)
		return true
	}
	return false
}

func roomOf(p plan.Placement) string {
	if p.InFlight {
		return "NodeClaim " + p.Node + ", whose node is on its way and has room"
	}
	return "node " + p.Node + ", which exists and has room"
}

func (o *Outcome) explainBound(w io.Writer, pod string) bool {
	where, ok := o.bound[pod]
	if ok {
		fmt.Fprintf(w, "Pod %s: %s\n", pod, where)
	}
	return ok
}

package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// show prints a plan for the want section of a scenario.
func show(t *testing.T, in plan.Input, p plan.Plan) string {
	t.Helper()
	var b strings.Builder
	for _, x := range p.Placements {
		kind := "node"
		if x.InFlight {
			kind = "in flight"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", kind, x.Node, members(in, x.Members))
	}
	for i, c := range p.Claims {
		if i > 0 && alike(in, &c, &p.Claims[i-1]) {
			fmt.Fprintf(&b, "%s: the same\n", c.Name)
			continue
		}
		e := c.Expected
		fmt.Fprintf(&b, "%s: %s %s %s $%.4f%s: %s\n", c.Name, e.InstanceType, e.Zone, e.CapacityType, e.Price, coveredBy(c.Covered), members(in, c.Members))
		if len(c.Alternatives) > 1 {
			fmt.Fprintf(&b, "  or %s\n", strings.Join(c.Alternatives[1:], " "))
		}
		for _, r := range c.Requirements {
			if show := text(r); show != "" {
				fmt.Fprintf(&b, "  %s\n", show)
			}
		}
		if len(c.Replaces) > 0 {
			fmt.Fprintf(&b, "  replaces %s\n", strings.Join(c.Replaces, ","))
		}
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(&b, "unplaced: %s\n", members(in, []plan.Member{{Class: u.Class, Pods: u.Pods}}))
		for _, r := range u.Reasons {
			fmt.Fprintf(&b, "  %s: %s: %s\n", r.NodePool, r.Code, r.Message)
		}
	}
	for _, x := range p.Ignored {
		fmt.Fprintf(&b, "ignored: %s: %s: %s\n", in.Classes[x.Class].Pod.Name, x.Preference, x.Reason)
	}
	for _, x := range p.Problems {
		fmt.Fprintf(&b, "problem: %s\n", x)
	}
	if p.PlainCostPerHour < p.CostPerHour {
		fmt.Fprintf(&b, "$%.4f without preferences; with them ", p.PlainCostPerHour)
	}
	fmt.Fprintf(&b, "$%.4f per hour, at least $%.4f, first-fit $%.4f\n", p.CostPerHour, plan.LowerBound(t.Context(), in, &p), p.FirstFitPerHour)
	return b.String()
}

func coveredBy(commitments string) string {
	if commitments == "" {
		return ""
	}
	return ", covered by " + commitments
}

func alike(in plan.Input, a, b *plan.Claim) bool {
	return a.Expected == b.Expected && a.Covered == b.Covered && a.NodePool == b.NodePool && members(in, a.Members) == members(in, b.Members) &&
		cmp.Equal(a.Requirements, b.Requirements) && slices.Equal(a.Alternatives, b.Alternatives)
}

// text leaves out what the line above has said.
func text(r catalog.Requirement) string {
	switch r.Key {
	case "node.kubernetes.io/instance-type", "karpenter.sh/nodepool", "karpenter.sh/capacity-type", "kubernetes.io/os":
		return ""
	}
	out := r.Key + " " + string(r.Operator)
	if len(r.Values) > 0 {
		out += " " + strings.Join(r.Values, " ")
	}
	if r.MinValues > 0 {
		out += fmt.Sprintf(" (at least %d)", r.MinValues)
	}
	return out
}

func members(in plan.Input, list []plan.Member) string {
	var out []string
	for _, x := range list {
		out = append(out, fmt.Sprintf("%s x%d", in.Classes[x.Class].Pod.Name, len(x.Pods)))
	}
	return strings.Join(out, ", ")
}

// check holds a plan to what must be true of every plan.
func check(t *testing.T, in plan.Input, p plan.Plan) {
	t.Helper()
	checkPodsOnce(t, in, p)
	for i := range p.Claims {
		checkClaim(t, in, &p.Claims[i])
	}
	checkLimits(t, in, p)
	if bound := plan.LowerBound(t.Context(), in, &p); bound > p.CostPerHour+1e-9 {
		t.Errorf("lower bound %f is above the cost %f", bound, p.CostPerHour)
	}
	limited := false
	for _, np := range in.Catalog.NodePools {
		// First-fit does not look at minValues.
		limited = limited || len(np.Limits) > 0 || slices.ContainsFunc(np.Requirements, func(r catalog.Requirement) bool { return r.MinValues > 0 })
	}
	// Spreading spot nodes may cost a premium.
	spot := slices.ContainsFunc(p.Claims, func(c plan.Claim) bool { return c.Expected.CapacityType == "spot" })
	if most := p.FirstFitPerHour + 1e-9; !limited && p.PlainCostPerHour > most && (!spot || p.PlainCostPerHour > 1.1*most) {
		t.Errorf("cost %f is above first-fit %f", p.PlainCostPerHour, p.FirstFitPerHour)
	}
	if p.CostPerHour > p.PlainCostPerHour*(1+max(in.PreferenceShare, 0))+1e-9 {
		t.Errorf("cost %f is more than %f above %f, which it is without preferences", p.CostPerHour, in.PreferenceShare, p.PlainCostPerHour)
	}
}

func checkPodsOnce(t *testing.T, in plan.Input, p plan.Plan) {
	t.Helper()
	seen := map[string]int{}
	count := func(ms []plan.Member) {
		for _, m := range ms {
			for _, ref := range m.Pods {
				seen[fmt.Sprint(m.Class)+" "+ref.UID]++
			}
		}
	}
	for _, c := range p.Claims {
		count(c.Members)
	}
	for _, x := range p.Placements {
		count(x.Members)
	}
	for _, u := range p.Unplaced {
		count([]plan.Member{{Class: u.Class, Pods: u.Pods}})
		if len(u.Reasons) == 0 {
			t.Errorf("class %d is unplaced without a reason", u.Class)
		}
	}
	total := 0
	for ci, c := range in.Classes {
		for _, ref := range c.Pods {
			total++
			if n := seen[fmt.Sprint(ci)+" "+ref.UID]; n != 1 {
				t.Errorf("pod %s of class %d occurs %d times in the plan", ref.Name, ci, n)
			}
		}
	}
	if len(seen) != total {
		t.Errorf("the plan has %d pods, the input %d", len(seen), total)
	}
}

// checkClaim checks with its own arithmetic that each alternative runs the claim's pods beside the daemon pods.
func checkClaim(t *testing.T, in plan.Input, c *plan.Claim) {
	t.Helper()
	np := in.Catalog.NodePools[c.NodePool]
	if c.Alternatives[0] != c.Expected.InstanceType || len(c.Alternatives) > 60 {
		t.Errorf("%s: alternatives %v do not begin with %s", c.Name, c.Alternatives, c.Expected.InstanceType)
	}
	byKey := map[string]catalog.Requirement{}
	for _, r := range c.Requirements {
		byKey[r.Key] = r
	}
	zones, capacity := byKey[corev1.LabelTopologyZone].Values, byKey["karpenter.sh/capacity-type"].Values
	for _, name := range c.Alternatives {
		i := slices.IndexFunc(in.Catalog.InstanceTypes[np.NodeClass], func(it catalog.InstanceType) bool { return it.Name == name })
		it := in.Catalog.InstanceTypes[np.NodeClass][i]
		offered := false
		for _, o := range it.Offerings {
			if !o.Available || !slices.Contains(zones, o.Zone) || !slices.Contains(capacity, o.CapacityType) {
				continue
			}
			offered = true
			labels := maps.Clone(c.Labels)
			maps.Copy(labels, it.Labels)
			labels[corev1.LabelTopologyZone], labels["karpenter.sh/capacity-type"], labels["topology.k8s.aws/zone-id"] = o.Zone, o.CapacityType, o.ZoneID
			labels["karpenter.sh/registered"], labels["karpenter.sh/initialized"] = "true", "true" // once it has joined
			checkNode(t, in, c, it, labels)
		}
		if !offered {
			t.Errorf("%s: alternative %s is not offered in %v %v", c.Name, name, zones, capacity)
		}
	}
}

func checkNode(t *testing.T, in plan.Input, c *plan.Claim, it catalog.InstanceType, labels map[string]string) {
	t.Helper()
	used := corev1.ResourceList{}
	for _, ds := range in.DaemonSets {
		pod := &corev1.Pod{Spec: ds.Spec.Template.Spec}
		if _, ok := nodematch.Tolerates(pod.Spec.Tolerations, c.Taints); ok && admitted(pod, labels) && runsSomewhere(in, pod, labels) {
			addTo(used, pod, 1)
		}
	}
	for _, m := range c.Members {
		pod := in.Classes[m.Class].Pod
		if !admitted(pod, labels) {
			t.Errorf("%s as %s: pods of %s do not match its labels %v", c.Name, it.Name, pod.Name, labels)
		}
		if taint, ok := nodematch.Tolerates(pod.Spec.Tolerations, c.Taints); !ok {
			t.Errorf("%s: pods of %s do not tolerate %s", c.Name, pod.Name, taint.ToString())
		}
		addTo(used, pod, len(m.Pods))
	}
	for name, q := range used {
		if have := it.Allocatable[name]; q.Cmp(have) > 0 {
			t.Errorf("%s as %s: %s %s asked, %s allocatable", c.Name, it.Name, name, q.String(), have.String())
		}
	}
}

// runsSomewhere reports whether any instance type with these labels, but for its own, is one that the pod may run on and that has what it asks for.
func runsSomewhere(in plan.Input, pod *corev1.Pod, labels map[string]string) bool {
	for _, types := range in.Catalog.InstanceTypes {
		for i := range types {
			of := maps.Clone(labels)
			maps.Copy(of, types[i].Labels)
			large := false
			for name, q := range plan.PodRequests(pod) {
				have := types[i].Allocatable[name]
				large = large || q.Cmp(have) > 0
			}
			if !large && admitted(pod, of) {
				return true
			}
		}
	}
	return false
}

func admitted(pod *corev1.Pod, labels map[string]string) bool {
	terms, err := nodematch.PodRequirements(pod)
	return err == nil && slices.ContainsFunc(terms, func(r catalog.Requirements) bool { _, ok := r.Match(labels); return ok })
}

func addTo(sum corev1.ResourceList, pod *corev1.Pod, n int) {
	requests := plan.PodRequests(pod)
	requests[corev1.ResourcePods] = *quantityOf(1)
	for name, q := range requests {
		s := sum[name]
		for range n {
			s.Add(q)
		}
		sum[name] = s
	}
}

func checkLimits(t *testing.T, in plan.Input, p plan.Plan) {
	t.Helper()
	for _, np := range in.Catalog.NodePools {
		for name, most := range np.Limits {
			used := np.Usage[name].DeepCopy()
			for _, c := range p.Claims {
				if c.NodePool == np.Name {
					used.Add(largestUse(in, np, c, name))
				}
			}
			if used.Cmp(most) > 0 && len(p.Claims) > 0 {
				t.Errorf("pool %s: limit %s is %s, the plan may use %s", np.Name, name, most.String(), used.String())
			}
		}
	}
}

// largestUse is the most that any alternative of the claim counts against a limit; against one in USD what the expected offering does.
func largestUse(in plan.Input, np catalog.NodePool, c plan.Claim, name corev1.ResourceName) resource.Quantity {
	if name == "nodes" {
		return *quantityOf(1)
	}
	if name == catalog.LimitUSD {
		return c.LimitedUSD(in.Catalog)
	}
	var most resource.Quantity
	for _, it := range in.Catalog.InstanceTypes[np.NodeClass] {
		if q := it.Capacity[name]; slices.Contains(c.Alternatives, it.Name) && q.Cmp(most) > 0 {
			most = q
		}
	}
	return most
}

func quantityOf(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

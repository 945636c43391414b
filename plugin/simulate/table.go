package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// listed is how many nodes and groups of pods a table lists one by one.
const listed = 40

// table prints the nodes by type with their use, existing nodes that take pods, the pods that stay pending and why, and the bill.
func (o *Outcome) table(ctx context.Context, w io.Writer) error {
	r := o.Result(ctx)
	if len(r.Nodes) > 0 {
		fmt.Fprintf(w, "%s to launch for %s:\n\n", catalog.CountText(len(r.Nodes), "node"), catalog.CountText(podsOn(r.Nodes), "pod"))
		if err := errors.Join(o.totals(w), o.nodeList(w)); err != nil {
			return err
		}
	}
	if err := existingList(w, r.Existing); err != nil {
		return err
	}
	unschedulableList(w, r.Unschedulable)
	if len(r.Nodes)+len(r.Existing)+len(r.Unschedulable) == 0 {
		if n := len(r.Problems); n > 0 {
			fmt.Fprintf(w, "No pod is pending in what could be read: standard error has %s of the input.\n", catalog.CountText(n, "problem"))
			return nil
		}
		fmt.Fprintln(w, "No pod is pending: nothing to do.")
		return nil
	}
	o.bill(w, r)
	return writeCommitments(w, r.Commitments)
}

// group is the nodes of one type, capacity type and NodePool.
type group struct {
	pool, instanceType, capacityType string
	nodes, pods                      int
	price                            float64
	used, have                       map[corev1.ResourceName]float64
}

func newGroup() *group {
	return &group{used: map[corev1.ResourceName]float64{}, have: map[corev1.ResourceName]float64{}}
}

func (g *group) add(c *plan.Claim) {
	g.nodes++
	g.price += c.Expected.Price
	for _, m := range c.Members {
		g.pods += len(m.Pods)
	}
	for name, q := range c.Allocatable {
		g.have[name] += q.AsApproximateFloat64()
	}
	for name, q := range c.Requests {
		g.used[name] += q.AsApproximateFloat64()
	}
}

// capacityOf returns the capacity type of the claim's node, and which commitments pay for it.
func capacityOf(c *plan.Claim) string {
	if c.Covered == "" {
		return c.Expected.CapacityType
	}
	return c.Expected.CapacityType + " (" + c.Covered + ")"
}

// share returns the requested share of a resource, a dash if the nodes have none of it.
func (g *group) share(name corev1.ResourceName) string {
	if g.have[name] == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*g.used[name]/g.have[name])
}

// totals prints a line for each kind of node, the most expensive first, and one for all.
func (o *Outcome) totals(w io.Writer) error {
	groups, all := map[string]*group{}, newGroup()
	for i := range o.Plan.Claims {
		c := &o.Plan.Claims[i]
		key := c.NodePool + "/" + c.Expected.InstanceType + "/" + capacityOf(c)
		g := groups[key]
		if g == nil {
			g = newGroup()
			g.pool, g.instanceType, g.capacityType = c.NodePool, c.Expected.InstanceType, capacityOf(c)
			groups[key] = g
		}
		g.add(c)
		all.add(c)
	}
	resources := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}
	for _, name := range slices.Sorted(maps.Keys(all.used)) {
		if strings.Contains(string(name), "/") || name == corev1.ResourceEphemeralStorage {
			resources = append(resources, name)
		}
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(tw, "TYPE\tCAPACITY\tNODEPOOL\tNODES\tPODS\tUSD/H")
	for _, name := range resources {
		fmt.Fprintf(tw, "\t%s", strings.ToUpper(shortName(name)))
	}
	fmt.Fprintln(tw)
	line := func(g *group, head ...string) {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%.4f", strings.Join(head, "\t"), g.nodes, g.pods, g.price)
		for _, name := range resources {
			fmt.Fprintf(tw, "\t%s", g.share(name))
		}
		fmt.Fprintln(tw)
	}
	sorted := slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.price, a.price), strings.Compare(a.instanceType, b.instanceType), strings.Compare(a.capacityType, b.capacityType), strings.Compare(a.pool, b.pool))
	})
	for _, g := range sorted {
		line(g, g.instanceType, g.capacityType, g.pool)
	}
	line(all, "all", "", "")
	return tw.Flush()
}

// shortName returns the name of a resource's column.
func shortName(name corev1.ResourceName) string {
	if name == corev1.ResourceEphemeralStorage {
		return "disk"
	}
	if name == corev1.ResourcePods {
		return "pods used"
	}
	_, last, found := strings.Cut(string(name), "/")
	if !found {
		return string(name)
	}
	return last
}

// nodeList prints the nodes one by one, if they are not too many.
func (o *Outcome) nodeList(w io.Writer) error {
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NODE\tTYPE\tZONE\tCAPACITY\tUSD/H\tALTERNATIVES\tPODS")
	for i := range o.Plan.Claims[:min(len(o.Plan.Claims), listed)] {
		c := &o.Plan.Claims[i]
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.4f\t%d\t%s\n", c.Name, c.Expected.InstanceType, c.Expected.Zone, capacityOf(c),
			c.Expected.Price, max(len(c.Alternatives)-1, 0), someOf(podsOf(c.Members)))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if n := len(o.Plan.Claims) - listed; n > 0 {
		fmt.Fprintf(w, "... and %s more: -o json lists all\n", catalog.CountText(n, "node"))
	}
	fmt.Fprintln(w)
	return nil
}

func existingList(w io.Writer, list []Existing) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintf(w, "Room on %s of the input:\n\n", catalog.CountText(len(list), "node"))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NODE\tPODS")
	for _, e := range list[:min(len(list), listed)] {
		fmt.Fprintf(tw, "%s\t%s\n", e.Name, someOf(e.Pods))
	}
	if n := len(list) - listed; n > 0 {
		fmt.Fprintf(tw, "... and %s more: -o json lists all\n", catalog.CountText(n, "node"))
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}

// unschedulableList prints the pods that stay pending, with those of the same reasons together.
func unschedulableList(w io.Writer, list []Unschedulable) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "%s cannot be placed:\n\n", catalog.CountText(len(list), "pod"))
	classes := ReasonClasses(list)
	for i, c := range classes {
		if i == listed {
			fmt.Fprintf(w, "  ... and %s: -o json lists all\n", catalog.CountText(len(classes)-listed, "more reason"))
			break
		}
		fmt.Fprintf(w, "  %s\n", someOf(c.Pods))
		for _, r := range c.Reasons {
			fmt.Fprintf(w, "    %s\n", r)
		}
	}
	fmt.Fprintln(w)
}

// String prints the reason as one line.
func (r Reason) String() string {
	if r.NodePool == "" {
		return r.Reason
	}
	return "NodePool " + r.NodePool + ": " + r.Reason
}

// bill prints what the nodes cost, and what others would pay.
func (o *Outcome) bill(w io.Writer, r Result) {
	if len(r.Nodes) > 0 {
		fmt.Fprintf(w, "Bill: %.4f USD per hour, %.2f USD per month\n", r.CostPerHour, r.CostPerHour*catalog.HoursPerMonth)
	}
	if r.CostPerHour > 0 {
		sum := catalog.Cost{}
		for i := range o.Plan.Claims {
			sum = sum.Plus(o.Plan.Claims[i].Cost)
		}
		fmt.Fprintf(w, "  of it: %s\n", sum)
		fmt.Fprintf(w, "  no set of nodes for these pods costs less than %.4f (%s)\n", r.LowerBoundPerHour, over(r.CostPerHour, r.LowerBoundPerHour))
		if r.FirstFitPerHour > 0 {
			fmt.Fprintf(w, "  first-fit decreasing would pay %.4f (%s)\n", r.FirstFitPerHour, than(r.FirstFitPerHour, r.CostPerHour))
		}
		if p := o.Plan.PlainCostPerHour; p > 0 && p < r.CostPerHour {
			fmt.Fprintf(w, "  without the pods' preferences it would be %.4f\n", p)
		}
	}
	fmt.Fprintf(w, "Planned and verified in %.3f s, %s, with at most %.0f MiB of memory\n", r.PlanSeconds, catalog.CountText(o.Rounds, "round"), r.PeakRSSMiB)
}

func over(cost, bound float64) string {
	if bound <= 0 {
		return "no bound is known"
	}
	return fmt.Sprintf("this is %.1f%% above", 100*(cost/bound-1))
}

func than(other, cost float64) string {
	switch share := 100 * (other/cost - 1); {
	case share < 0.05:
		return "no more"
	default:
		return fmt.Sprintf("%.1f%% more", share)
	}
}

func podsOn(nodes []Node) int {
	n := 0
	for _, node := range nodes {
		n += len(node.Pods)
	}
	return n
}

// someOf returns the first names of a list and the number of the others.
func someOf(list []string) string {
	const most = 3
	if len(list) <= most+1 {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

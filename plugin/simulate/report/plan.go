package report

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// Plan writes what would be launched for pending pods. Ignored counts objects of kinds that no simulation uses, by kind.
func Plan(ctx context.Context, w io.Writer, o *simulate.Outcome, ignored map[string]int) error {
	f := fleets{owners: o.Owners(), outside: o.Outside(), about: notes{ignored, o.Notes, o.Problems}}
	f.before, f.after = o.Nodes(ctx)
	return write(w, planPage(o.Result(ctx), f))
}

// fleets are the nodes before and after, with what is known of their pods and of the input.
type fleets struct {
	before, after []simulate.NodeUse
	// owners are the workloads of pods by namespace/name.
	owners map[string]string
	// outside is how many nodes belong to no NodePool.
	outside int
	about   notes
}

// planPage is the page of a plan.
func planPage(r simulate.Result, f fleets) page {
	return page{
		Title: "What slipway would launch", Lead: lead(r), Figures: planFigures(r, total(f.before).Price), Bill: planBill(r, f),
		Maps: bothMaps("Before", f.before, "After", f.after), Pools: pools(f.before, f.after),
		Pending: pendingPods(simulate.ReasonClasses(r.Unschedulable), f.owners), Tables: planTables(r, f.after, &rows{left: maxRows, owners: f.owners}),
		Commitments: commitments(r.Commitments), Remarks: remarks(f.about),
	}
}

// lead is the outcome in one sentence.
func lead(r simulate.Result) string {
	if len(r.Nodes)+len(r.Existing)+len(r.Unschedulable) == 0 {
		return "No pod is pending: nothing to do."
	}
	onNew, onOld := 0, 0
	for _, n := range r.Nodes {
		onNew += len(n.Pods)
	}
	for _, e := range r.Existing {
		onOld += len(e.Pods)
	}
	return fmt.Sprintf("Of %s, %s get a place on %s, %s on nodes that exist or are in flight, and %s cannot be placed.",
		count(onNew+onOld+len(r.Unschedulable), "pending pod"), number(onNew), count(len(r.Nodes), "new node"), number(onOld), number(len(r.Unschedulable)))
}

// planFigures are the numbers on top of a plan.
func planFigures(r simulate.Result, before float64) []figure {
	pods := 0
	for _, n := range r.Nodes {
		pods += len(n.Pods)
	}
	out := []figure{
		{Name: "To launch", Value: count(len(r.Nodes), "node"), Note: "for " + count(pods, "pod")},
		{
			Name: "They cost", Value: usd(r.CostPerHour, true) + " USD/h",
			Note: fmt.Sprintf("%s USD per month of %d hours", month(r.CostPerHour, true), catalog.HoursPerMonth),
		},
	}
	if before > 0 {
		out = append(out, figure{
			Name: "All nodes", Value: usd(before+r.CostPerHour, true) + " USD/h", Note: usd(before, true) + " before",
		})
	}
	if r.LowerBoundPerHour > 0 {
		out = append(out, figure{
			Name: "Above the lower bound", Value: fmt.Sprintf("%.1f%%", 100*(r.CostPerHour/r.LowerBoundPerHour-1)),
			Note: fmt.Sprintf("no set of nodes for these pods costs less than %.4f", r.LowerBoundPerHour),
		})
	}
	last := figure{Name: "Cannot be placed", Value: count(len(r.Unschedulable), "pod"), Bad: len(r.Unschedulable) > 0}
	if last.Bad {
		last.Note = count(len(simulate.ReasonClasses(r.Unschedulable)), "reason group")
	}
	return append(out, last)
}

// planBill compares the bill before and after, and the new nodes with what else they could cost.
func planBill(r simulate.Result, f fleets) bill {
	was, then := total(f.before), total(f.after)
	var launched catalog.Cost
	for _, n := range r.Nodes {
		launched = launched.Plus(n.Cost)
	}
	var charges []charge
	if len(f.before) > 0 {
		charges = append(charges, charge{"All nodes before", was.Price, was.Cost, was.Price == 0}, charge{"All nodes after", then.Price, then.Cost, then.Price == 0})
	}
	if r.CostPerHour > 0 {
		charges = append(charges, charge{name: "New nodes", perHour: r.CostPerHour, parts: launched})
		charges = append(charges, charge{name: "Lower bound of new nodes", perHour: r.LowerBoundPerHour, unknown: r.LowerBoundPerHour <= 0})
	}
	if r.FirstFitPerHour > 0 {
		charges = append(charges, charge{name: "First-fit decreasing", perHour: r.FirstFitPerHour})
	}
	out := newBill(charges)
	if n := unpriced(f.before); n > 0 {
		out.Footnotes = append(out.Footnotes, "Not counted: "+count(n, "node")+" without a known price (--aws asks EC2 for spot prices, --prices reads them)")
	}
	if f.outside > 0 {
		out.Footnotes = append(out.Footnotes, "Not counted: "+count(f.outside, "node")+" of no NodePool")
	}
	return out
}

// bothMaps draws two fleets on one scale.
func bothMaps(name string, before []simulate.NodeUse, then string, after []simulate.NodeUse) []nodeMap {
	scale := max(total(before).Price, total(after).Price)
	var out []nodeMap
	for _, m := range []nodeMap{mapOf(name, before, scale), mapOf(then, after, scale)} {
		if len(m.Areas) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// planTables list the nodes to launch by NodePool, those that take pods, and the others.
func planTables(r simulate.Result, after []simulate.NodeUse, page *rows) []section {
	launched, takes := map[string]bool{}, map[string]simulate.Existing{}
	for _, n := range r.Nodes {
		launched[n.Name] = true
	}
	for _, e := range r.Existing {
		takes[e.Name] = e
	}
	var fresh, filled, others []simulate.NodeUse
	for _, n := range after {
		switch {
		case launched[n.Name]:
			fresh = append(fresh, n)
		case len(takes[n.Name].Pods) > 0:
			filled = append(filled, n)
			delete(takes, n.Name)
		default:
			others = append(others, n)
		}
	}
	// Nodes of no NodePool take pods as well. What they are is not known here.
	for _, e := range r.Existing {
		if _, left := takes[e.Name]; left {
			filled = append(filled, simulate.NodeUse{Name: e.Name, Pods: e.Pods})
		}
	}
	return nonEmpty(
		byPools(section{ID: "launch", Heading: "Nodes to launch"}, fresh, page),
		byPools(section{ID: "existing", Heading: "Nodes that take pending pods", Text: "These nodes exist or are in flight. Use and pods are those after the plan."}, filled, page),
		byPools(section{ID: "others", Heading: "Nodes that stay as they are"}, others, page),
	)
}

func nonEmpty(of ...section) []section {
	return slices.DeleteFunc(of, func(s section) bool { return len(s.Tables) == 0 })
}

// byPools adds a table for each NodePool to a section.
func byPools(s section, nodes []simulate.NodeUse, page *rows) section {
	names, of := byPool(nodes)
	for i, pool := range names {
		if page.left < fewRows {
			s.More = fmt.Sprintf("and nodes of %s more: -o json lists all", count(len(names)-i, "NodePool"))
			break
		}
		sum := total(of[pool])
		title := "NodePool " + name(pool)
		if pool == "" {
			title = "No NodePool"
		}
		caption := fmt.Sprintf("%s: %s, %s", title, count(len(of[pool]), "node"), count(len(sum.Pods), "pod"))
		if sum.Price > 0 {
			caption += fmt.Sprintf(", %.4f USD per hour", sum.Price)
		}
		s.Tables = append(s.Tables, nodeTable{Caption: caption, Rows: page.list(of[pool], sign{})})
	}
	return s
}

// fewRows is how many rows the page must have left for another table.
const fewRows = 3

// pendingPods lists the classes of pods that cannot be placed, the largest first.
func pendingPods(classes []simulate.ReasonClass, owners map[string]string) pendingTable {
	slices.SortStableFunc(classes, func(a, b simulate.ReasonClass) int { return cmp.Compare(len(b.Pods), len(a.Pods)) })
	var out pendingTable
	if more := len(classes) - maxClasses; more > 0 {
		classes, out.More = classes[:maxClasses], fmt.Sprintf("and %s more: -o json lists all", count(more, "reason group"))
	}
	for _, c := range classes {
		row := pendingRow{Count: len(c.Pods), Pods: some(c.Pods), Workloads: workloads(c.Pods, owners)}
		for i, reason := range c.Reasons {
			if i == maxReasons {
				row.More = fmt.Sprintf("and %s more: -o json lists all", count(len(c.Reasons)-i, "reason"))
				break
			}
			row.Reasons = append(row.Reasons, reasonLine{name(reason.NodePool), name(reason.Code), short(reason.Reason)})
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

const (
	// maxClasses is how many classes of pending pods, and how many reasons for which nodes stay, are listed.
	maxClasses = 60
	// maxReasons is how many reasons of one class are listed.
	maxReasons = 8
)

// commitments lists Savings Plans and Reserved Instances.
func commitments(list []catalog.CommitmentUse) []commitmentRow {
	var out []commitmentRow
	for _, c := range list[:min(len(list), maxClasses)] {
		out = append(out, commitmentRow{
			ID: name(c.ID), Kind: fmt.Sprint(c.Kind), Amount: amountOf(c.Amount, c.Unit), Left: amountOf(c.Left, c.Unit),
			Used: use{Known: true, Width: width(c.Used()), Percent: percent(c.Used())},
		})
	}
	return out
}

func amountOf(v float64, unit string) string {
	return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64) + " " + unit
}

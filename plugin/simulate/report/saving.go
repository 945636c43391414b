package report

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// maxMoves is how many moves have a table.
const maxMoves = 80

// Saving writes which nodes could be removed, what would be launched instead, and what that saves. Ignored counts objects of kinds that no
// simulation uses, by kind.
func Saving(ctx context.Context, w io.Writer, s *simulate.Saving, ignored map[string]int) error {
	f := fleets{owners: s.Owners, about: notes{ignored, s.Notes, s.Problems}}
	f.before, f.after = s.Nodes(ctx)
	return write(w, savingPage(s.Result(), f))
}

// savingPage is the page of a consolidation.
func savingPage(r simulate.SavingResult, f fleets) page {
	c := change{before: named(f.before), after: named(f.after), page: &rows{left: maxRows, owners: f.owners}}
	moves := c.moves(r)
	stay := slices.DeleteFunc(slices.Clone(f.after), func(n simulate.NodeUse) bool { _, was := c.before[n.Name]; return !was })
	return page{
		Title: "What consolidation would save", Lead: savingLead(r), Figures: savingFigures(r), Bill: savingBill(r, f),
		Maps: bothMaps("Now", f.before, "Then", f.after), Pools: pools(f.before, f.after),
		Tables: nonEmpty(moves, byPools(section{ID: "stay", Heading: "Nodes that stay", Text: "Use and pods are those after all moves."}, stay, c.page)),
		Kept:   keptNodes(simulate.KeptClasses(r.Kept)), Remarks: remarks(f.about),
	}
}

func named(nodes []simulate.NodeUse) map[string]simulate.NodeUse {
	out := make(map[string]simulate.NodeUse, len(nodes))
	for _, n := range nodes {
		out[n.Name] = n
	}
	return out
}

// savingLead is the outcome in one sentence.
func savingLead(r simulate.SavingResult) string {
	switch {
	case r.Nodes == 0:
		return "No node belongs to a NodePool: nothing to consolidate."
	case len(r.Moves) == 0 && r.Unpriced == r.Nodes:
		return "What could be gained is not known: no node has a known price."
	case len(r.Moves) == 0:
		return "Nothing to gain: no move pays."
	}
	lead := fmt.Sprintf("%s in %s, with %s of %s. The new nodes of a move are ready before its pods are evicted.",
		count(len(r.Moves), "move"), count(r.Steps, "step"), count(r.Evictions, "eviction"), count(r.EvictedPods, "pod"))
	if r.Unfinished {
		lead += " More " + r.Further() + "."
	}
	return lead
}

// savingFigures are the numbers on top of a consolidation.
func savingFigures(r simulate.SavingResult) []figure {
	known := func(nodes int) bool { return r.Unpriced < r.Nodes || nodes == 0 }
	out := []figure{{Name: "Now", Value: usd(r.CostPerHour, known(r.Nodes)) + " USD/h", Note: count(r.Nodes, "node")}}
	if len(r.Moves) == 0 {
		return out
	}
	saving, note := r.CostPerHour-r.CostPerHourThen, ""
	if r.CostPerHour > 0 {
		note = fmt.Sprintf("%s, %s USD per month of %d hours", percent(saving/r.CostPerHour), month(saving, true), catalog.HoursPerMonth)
	}
	if n := r.UnpricedRemoved(); n > 0 {
		note = strings.TrimPrefix(note+", and what "+count(n, "node")+" without a known price cost", ", and ")
	}
	out = append(
		out,
		figure{Name: "Then", Value: usd(r.CostPerHourThen, known(r.NodesThen)) + " USD/h", Note: count(r.NodesThen, "node")},
		figure{Name: "Saves", Value: usd(saving, saving > 0 || r.UnpricedRemoved() == 0) + " USD/h", Note: note},
	)
	if r.CostPerHourAnew > 0 {
		out = append(out, figure{Name: "From scratch", Value: usd(r.CostPerHourAnew, true) + " USD/h", Note: "if every pod that may move were planned at once"})
	}
	return out
}

// savingBill compares the bills.
func savingBill(r simulate.SavingResult, f fleets) bill {
	if r.Nodes == 0 {
		return bill{}
	}
	was, then := total(f.before), total(f.after)
	charges := []charge{{"Now", r.CostPerHour, was.Cost, r.Unpriced >= r.Nodes}}
	if len(r.Moves) > 0 {
		charges = append(charges, charge{"Then", r.CostPerHourThen, then.Cost, r.CostPerHourThen == 0 && r.NodesThen > 0})
		if r.CostPerHourAnew > 0 {
			charges = append(charges, charge{name: "From scratch", perHour: r.CostPerHourAnew})
		}
	}
	out := newBill(charges)
	for _, what := range r.NotCounted() {
		out.Footnotes = append(out.Footnotes, "Not counted: "+what)
	}
	return out
}

// change is what moves do to nodes.
type change struct {
	before, after map[string]simulate.NodeUse
	page          *rows
}

// moves lists the moves, each with its nodes.
func (c *change) moves(r simulate.SavingResult) section {
	out := section{ID: "moves", Heading: "Moves", Text: "A step is what the NodePools' budgets let go at once. " +
		"The use of removed nodes is that of now, the use of the others that after all moves."}
	for i := range r.Moves {
		m := &r.Moves[i]
		if i == maxMoves || c.page.left < 3*fewRows {
			left, saves := r.Moves[i:], 0.0
			for j := range left {
				saves += left[j].SavingPerHour
			}
			out.More = fmt.Sprintf("and %s more, which save %.4f USD per hour: -o json lists all", count(len(left), "move"), saves)
			break
		}
		out.Tables = append(out.Tables, nodeTable{
			Caption: short(fmt.Sprintf("Step %d: %s", m.Step, m.Summary())), Signed: true, Rows: c.move(m),
		})
	}
	return out
}

// move lists the nodes that a move removes and launches, and those that take its pods.
func (c *change) move(m *simulate.MoveResult) []nodeRow {
	pods := map[string][]string{}
	for _, pod := range slices.Sorted(maps.Keys(m.Evictions)) {
		to := m.Evictions[pod]
		pods[to] = append(pods[to], pod)
	}
	var removed, launched, taking []simulate.NodeUse
	for _, n := range m.Nodes {
		removed = append(removed, known(n, c.before, c.after))
	}
	for _, n := range m.Replacements {
		node := known(n, c.after, nil)
		node.Pods = pods[n.Name]
		launched = append(launched, node)
		delete(pods, n.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		node := known(simulate.OldNode{Name: name}, c.after, c.before)
		node.Pods = pods[name]
		taking = append(taking, node)
	}
	out := c.page.list(removed, sign{"removed", "minus"})
	if len(launched) > 0 {
		out = append(out, c.page.list(launched, sign{"launched", "plus"})...)
	}
	if len(taking) > 0 {
		out = append(out, c.page.list(taking, sign{"takes pods", "same"})...)
	}
	return out
}

// known returns the node with its use, as the first fleet that has it says; what a later step removes again has none.
func known(n simulate.OldNode, fleets ...map[string]simulate.NodeUse) simulate.NodeUse {
	for _, fleet := range fleets {
		if use, ok := fleet[n.Name]; ok {
			return use
		}
	}
	return simulate.NodeUse{Name: n.Name, NodePool: n.NodePool, InstanceType: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType, Price: n.Price}
}

// keptNodes lists the reasons for which nodes stay.
func keptNodes(classes []simulate.KeptClass) keptTable {
	var out keptTable
	if more := len(classes) - maxClasses; more > 0 {
		classes, out.More = classes[:maxClasses], fmt.Sprintf("and %s more: -o json lists all", count(more, "reason"))
	}
	for _, c := range classes {
		out.Rows = append(out.Rows, keptRow{Count: len(c.Nodes), Nodes: some(c.Nodes), Reason: short(c.Reason)})
	}
	return out
}

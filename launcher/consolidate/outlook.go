package consolidate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// Outlook returns what was decided last; zero while another replica decides, from when the next decision would be on. It may be called from any goroutine.
func (c *Consolidator) Outlook() view.Consolidation {
	if last := c.outlook.Load(); last != nil {
		return *last
	}
	return view.Consolidation{Moves: []view.Move{}, Stays: []view.Stay{}}
}

// showsFor is how long the time of a decision stays while each next decision is the same: viewers that ask again have it already.
const showsFor = 30 * time.Second

// show keeps what was decided for Outlook.
func (c *Consolidator) show(next *view.Consolidation) {
	if last := c.outlook.Load(); last != nil && next.At.Sub(last.At) < showsFor && reflect.DeepEqual(last.Moves, next.Moves) && reflect.DeepEqual(last.Stays, next.Stays) {
		return
	}
	c.outlook.Store(next)
}

// outlookOf returns what a decision at a time shows: its moves, of which begun are carried out and waits has why others are not yet, and why each
// other node stays.
func outlookOf(f *fleet, answer *api.ConsolidateAnswer, outcomes []outcome, at time.Time) *view.Consolidation {
	out := &view.Consolidation{At: at.UTC(), Moves: []view.Move{}, Stays: []view.Stay{}}
	goes := map[string]bool{}
	for i, m := range answer.GetMoves() {
		for _, name := range m.GetNodeNames() {
			goes[name] = true
		}
		out.Moves = append(out.Moves, view.Move{
			Nodes: m.GetNodeNames(), Replacements: replacements(m), Saving: catalog.Micro(m.GetSaving()), Evictions: int(m.GetEvictions()),
			Begun: outcomes[i].begun, Waits: outcomes[i].waits,
		})
	}
	for _, n := range f.nodes {
		if n.blocked.Why != "" && !goes[n.node.Name] {
			goes[n.node.Name] = true
			out.Stays = append(out.Stays, view.Stay{Node: n.node.Name, Why: n.blocked.Why})
		}
	}
	for _, k := range answer.GetKept() {
		if !goes[k.GetName()] {
			out.Stays = append(out.Stays, view.Stay{Node: k.GetName(), Why: k.GetReason()})
		}
	}
	slices.SortFunc(out.Stays, func(a, b view.Stay) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// outcome is what became of a planned move.
type outcome struct {
	begun bool
	waits string
}

// replacements returns what a move launches.
func replacements(m *api.PlannedMove) []string {
	var out []string
	for _, r := range m.GetReplacements() {
		out = append(out, fmt.Sprintf("%s %s", r.GetInstanceType(), r.GetCapacityType()))
	}
	return out
}

// mostPriced is of how many replacements a message has the price: a move may launch a hundred nodes.
const mostPriced = 3

// message returns what a move replaces nodes with, at which price, and what it saves.
func message(m *api.PlannedMove) string {
	room := "pods fit elsewhere"
	if launched := replacements(m); len(launched) > 0 {
		for i, r := range m.GetReplacements()[:min(len(launched), mostPriced)] {
			launched[i] += " (" + catalog.PriceText(r.GetPrice(), record.CostOf(r)) + ")"
		}
		room = "replaced by " + strings.Join(launched, ", ")
	}
	return fmt.Sprintf("%s, saves %.4f USD/h with %s", room, m.GetSaving(), catalog.CountText(int(m.GetEvictions()), "eviction"))
}

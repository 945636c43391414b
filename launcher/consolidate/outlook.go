package consolidate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// Outlook returns what was decided last; zero while another replica decides. It may be called from any goroutine.
func (c *Consolidator) Outlook() view.Consolidation {
	if last := c.outlook.Load(); last != nil {
		return *last
	}
	return view.Consolidation{Moves: []view.Move{}, Stays: []view.Stay{}}
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
		if n.blocked != "" && !goes[n.node.Name] {
			goes[n.node.Name] = true
			out.Stays = append(out.Stays, view.Stay{Node: n.node.Name, Why: n.blocked})
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

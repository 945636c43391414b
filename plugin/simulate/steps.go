package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// maxSteps is the number of steps after which a consolidation ends even if more could be saved: each asks the planner up to 24 times.
const maxSteps = 100

// end notes that more moves would follow. Their nodes stay.
func (s *Saving) end(moves []consolidate.Move) {
	s.Unfinished = true
	for i := range moves {
		for j := range moves[i].Nodes {
			s.Kept = append(s.Kept, consolidate.Kept{
				Node: moves[i].Nodes[j].Name, Reason: fmt.Sprintf("it would go in the next step, the simulation ends after %d", maxSteps),
			})
		}
	}
	slices.SortFunc(s.Kept, func(a, b consolidate.Kept) int { return strings.Compare(a.Node, b.Node) })
}

// countEvictions counts those of a move, by NodePool. now is when the step of the move begins.
func countEvictions(calm map[string]disruption.Evictions, m consolidate.Move, now time.Time) {
	for i := range m.Nodes {
		pool := m.Nodes[i].NodePool
		calm[pool] = calm[pool].With(len(m.Nodes[i].Pods), now)
	}
}

// strain sets what an eviction costs after those of the steps before, as in the launcher. A step takes as long as both old and new nodes are paid
// (consolidate.Options.Overlap). Nothing else of the input ages from step to step.
func strain(fleet []consolidate.Node, calm map[string]disruption.Evictions, cost float64, now time.Time) {
	pods := map[string]int{}
	for i := range fleet {
		pods[fleet[i].NodePool] += len(fleet[i].Pods)
	}
	for i := range fleet {
		pool := fleet[i].NodePool
		fleet[i].EvictionCost = cost * calm[pool].Strain(pods[pool], now)
	}
}

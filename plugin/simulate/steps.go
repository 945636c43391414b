package simulate

import (
	"time"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// maxSteps is the number of steps after which a consolidation ends even if more could be saved.
const maxSteps = 100

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

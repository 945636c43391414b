package consolidate

import (
	"fmt"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// approvedEvent is Karpenter's Event that states why nodes of a NodePool with consolidationPolicy Balanced may be removed.
const approvedEvent = "ConsolidationApproved"

// approve counts an approved move in each of its NodePools. For NodePools with consolidationPolicy Balanced it records the
// score in an Event. As in Karpenter, the Event is on the node where the move has one node, else on the NodePool.
func (c *Consolidator) approve(f *fleet, m *api.PlannedMove) {
	var counted []string
	for _, name := range m.GetNodeNames() {
		pool := f.byName[name].pool
		if slices.Contains(counted, pool.Name) {
			continue
		}
		counted = append(counted, pool.Name)
		policy := string(pool.Spec.Disruption.ConsolidationPolicy)
		c.config.Metrics.Judged(true, pool.Name, policy)
		i := slices.IndexFunc(m.GetScores(), func(s *api.BalancedScore) bool { return s.GetNodePool() == pool.Name })
		if i < 0 {
			continue
		}
		score := m.GetScores()[i]
		c.config.Metrics.Scored(true, pool.Name, policy, score.GetValue())
		message := fmt.Sprintf("score %.2f >= threshold %.2f (k: %d, savings %.1f%%, disruption %.1f%%)",
			score.GetValue(), score.GetThreshold(), karpv1.BalancedK, 100*score.GetSavings(), 100*score.GetDisruption())
		if len(m.GetNodeNames()) == 1 {
			c.record(f.byName[name], approvedEvent, message)
		} else {
			c.recordOn(approvedEvent, message, pool)
		}
	}
}

// reject counts the moves that save money but have too low a score for a NodePool with consolidationPolicy Balanced. The
// Event Unconsolidatable on each node states the reason.
func (c *Consolidator) reject(f *fleet, scores []*api.BalancedScore) {
	for _, s := range scores {
		i := slices.IndexFunc(f.nodes, func(n *member) bool { return n.pool.Name == s.GetNodePool() })
		if i < 0 {
			continue
		}
		policy := string(f.nodes[i].pool.Spec.Disruption.ConsolidationPolicy)
		c.config.Metrics.Judged(false, s.GetNodePool(), policy)
		c.config.Metrics.Scored(false, s.GetNodePool(), policy, s.GetValue())
	}
}

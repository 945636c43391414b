package consolidate

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// approvedEvent is Karpenter's Event that says why a NodePool with consolidationPolicy Balanced lets nodes go.
const approvedEvent = "ConsolidationApproved"

// approve counts a move that is worth it, and says of NodePools with consolidationPolicy Balanced by which score: on the node where it
// is one, else on the NodePool, as Karpenter does.
func (c *Consolidator) approve(f *fleet, m *api.PlannedMove) {
	var told []string
	for _, name := range m.GetNodeNames() {
		pool := f.byName[name].pool
		if slices.Contains(told, pool.Name) {
			continue
		}
		told = append(told, pool.Name)
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
			c.say(f.byName[name], approvedEvent, message)
		} else if c.news(approvedEvent, pool.Name, message) {
			c.config.Events.Eventf(pool, corev1.EventTypeNormal, approvedEvent, "%s", message)
		}
	}
}

// reject counts the moves that would have paid, but not in a NodePool with consolidationPolicy Balanced. On the nodes the reason is
// said by what keeps them.
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

// news says whether an Event of the kind has not been told about an object for a while, and notes that it is.
func (c *Consolidator) news(event, object, message string) bool {
	key := event + "/" + object
	if last, ok := c.told[key]; ok && time.Since(last.at) < tellEvery {
		return false
	}
	c.told[key] = telling{at: time.Now(), what: message}
	return true
}

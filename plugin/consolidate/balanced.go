package consolidate

import (
	"fmt"
	"maps"
	"slices"
)

// Balance is the score that a move out of a NodePool with policy Balanced has to reach: Karpenter's 1/k with k = 2
// (karpenter.sh/docs/concepts/disruption).
const Balance = 0.5

// Score compares what a move saves with what it disrupts, for a NodePool with policy Balanced, as Karpenter computes it.
type Score struct {
	// NodePool is the one that loses nodes.
	NodePool string
	// Savings is the share of the NodePool's cost that the move saves, 0 to 1.
	Savings float64
	// Disruption is the move's share of the disruption of all its nodes, 0 to 1. A node counts 1 plus the weights of its
	// evictions.
	Disruption float64
}

// Value returns Savings divided by Disruption.
func (s Score) Value() float64 {
	if s.Savings <= 0 || s.Disruption <= 0 {
		return 0
	}
	return s.Savings / s.Disruption
}

// Approved reports whether the savings are worth the disruption.
func (s Score) Approved() bool { return s.Value() >= Balance }

// disruption returns the weight of the node's end: 1 plus the weights of its evictions.
func (n *Node) disruption() float64 { return 1 + n.evictions() }

// scores returns the scores of the NodePools with policy Balanced. The move's saving is divided by what their nodes cost.
func (s *search) scores(m *Move) []Score {
	all := 0.0
	price, disruption := map[string]float64{}, map[string]float64{}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		all += n.Price
		if n.Policy == Balanced {
			price[n.NodePool] += n.Price
			disruption[n.NodePool] += n.disruption()
		}
	}
	var out []Score
	for _, pool := range slices.Sorted(maps.Keys(price)) {
		if t := s.totals[pool]; t.price > 0 && all > 0 {
			out = append(out, Score{NodePool: pool, Savings: m.Saving * price[pool] / all / t.price, Disruption: disruption[pool] / t.disruption})
		}
	}
	return out
}

// unbalanced returns why a move out of NodePools with policy Balanced disrupts too much for what it saves; empty if it does not.
func (s *search) unbalanced(m *Move) string {
	why := ""
	for _, score := range m.Scores {
		if score.Approved() {
			continue
		}
		s.rejected = append(s.rejected, score)
		why = fmt.Sprintf("the move saves %.1f%% of what NodePool %s costs for %.1f%% of its disruption (nodes and evictions): its score %.2f is below %.2f (Balanced)",
			100*score.Savings, score.NodePool, 100*score.Disruption, score.Value(), Balance)
	}
	return why
}

package consolidate

import (
	"fmt"
	"maps"
	"slices"
)

// Balance is the score that a move out of a NodePool with policy Balanced has to reach: Karpenter's, 1/k with its k of 2
// (karpenter.sh/docs/concepts/disruption).
const Balance = 0.5

// Score is what a move means to a NodePool with policy Balanced, as Karpenter computes it.
type Score struct {
	// NodePool that loses nodes.
	NodePool string
	// Savings is the share of the NodePool's cost that the move saves, 0 to 1.
	Savings float64
	// Disruption is the share of the disruption of all its nodes that the move is: of each node 1, and the weights of its evictions.
	Disruption float64
}

// Value is how many times the share of the savings is that of the disruption.
func (s Score) Value() float64 {
	if s.Savings <= 0 || s.Disruption <= 0 {
		return 0
	}
	return s.Savings / s.Disruption
}

// Approved says whether the savings are worth the disruption.
func (s Score) Approved() bool { return s.Value() >= Balance }

// disruption is what the end of the node weighs by itself, and by the evictions.
func (n *Node) disruption() float64 { return 1 + n.evictions() }

// scores are those of the NodePools with policy Balanced. What the move saves is theirs by what their nodes cost.
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

// unbalanced says of a move out of NodePools with policy Balanced why it moves too much for what it saves.
func (s *search) unbalanced(m *Move) string {
	why := ""
	for _, score := range m.Scores {
		if score.Approved() {
			continue
		}
		s.rejected = append(s.rejected, score)
		why = fmt.Sprintf("the move saves %.1f %% of what NodePool %s costs for %.1f %% of its disruption (nodes and evictions): its score %.2f is below %.2f (Balanced)",
			100*score.Savings, score.NodePool, 100*score.Disruption, score.Value(), Balance)
	}
	return why
}

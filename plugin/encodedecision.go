package plugin

import (
	"strings"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/link"
)

// encodeDecision leaves out the empty nodes: they need no scheduler to go.
func encodeDecision(d consolidate.Decision, o consolidate.Options) *api.ConsolidateAnswer {
	out := &api.ConsolidateAnswer{Questions: int32(min(d.Questions, 1<<30)), Rejected: encodeScores(d.Rejected), TimedOut: d.TimedOut}
	for i := range d.Moves {
		m := &d.Moves[i]
		if len(m.Targets) == 0 {
			continue
		}
		move := &api.PlannedMove{Evictions: evictions(m), Saving: m.Saving, MostPerHour: m.Most(o), Avoid: m.Avoid, Scores: encodeScores(m.Scores)}
		for _, n := range m.Nodes {
			move.NodeNames = append(move.NodeNames, n.Name)
		}
		for _, r := range m.Replacements {
			move.Replacements = append(move.Replacements, &api.Expected{
				InstanceType: r.InstanceType, Zone: r.Zone, CapacityType: r.CapacityType, Price: r.Price, Cost: link.Cost(r.Cost),
			})
		}
		out.Moves = append(out.Moves, move)
	}
	for _, k := range d.Kept {
		out.Kept = append(out.Kept, &api.KeptNode{Name: k.Node, Reason: strings.TrimSpace(k.Reason), Unlooked: k.Unlooked})
	}
	return out
}

func encodeScores(scores []consolidate.Score) []*api.BalancedScore {
	var out []*api.BalancedScore
	for _, s := range scores {
		out = append(out, &api.BalancedScore{
			NodePool: s.NodePool, Savings: s.Savings, Disruption: s.Disruption, Value: s.Value(), Threshold: consolidate.Balance,
		})
	}
	return out
}

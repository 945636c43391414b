package simulate

import (
	"time"

	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// allowances are how many nodes of each NodePool its budgets let go at the time; where one of them cannot be read, none.
func allowances(objects *input.Objects, now time.Time) (map[string]consolidate.Allowance, []input.Problem) {
	nodes := map[string]int{}
	for _, n := range objects.Nodes {
		nodes[n.Labels[karpv1.NodePoolLabelKey]]++
	}
	out := map[string]consolidate.Allowance{}
	var problems []input.Problem
	for _, p := range objects.NodePools {
		if len(p.Spec.Disruption.Budgets) == 0 {
			// The default of the CRD, for a NodePool that has seen no API server.
			p = p.DeepCopy()
			p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "10%"}}
		}
		allowed := func(reason karpv1.DisruptionReason) int {
			n, err := p.GetAllowedDisruptionsByReason(still{now: now}, nodes[p.Name], reason)
			if err != nil {
				problems = append(problems, input.Problem{
					Object: "NodePool " + p.Name, Field: "spec.disruption.budgets",
					Message: err.Error() + ": none of its nodes may go until this is mended",
				})
				return 0
			}
			return n
		}
		out[p.Name] = consolidate.Allowance{Empty: allowed(karpv1.DisruptionReasonEmpty), Underutilized: allowed(karpv1.DisruptionReasonUnderutilized)}
	}
	return out, problems
}

// still is a clock that stands still: Karpenter's budgets ask for the time by themselves.
type still struct {
	clock.RealClock
	now time.Time
}

// Now returns the moment the decision is made for.
func (s still) Now() time.Time { return s.now }

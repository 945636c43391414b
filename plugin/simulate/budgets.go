package simulate

import (
	"errors"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// allowances returns how many more nodes of each NodePool its budgets let consolidation remove. If one of its budgets cannot be
// read, the number is zero and a problem has the reason.
func (o *observed) allowances(pools []*karpv1.NodePool) (map[string]consolidate.Allowance, []input.Problem) {
	out := make(map[string]consolidate.Allowance, len(pools))
	var problems []input.Problem
	for _, p := range pools {
		left := func(reason karpv1.DisruptionReason) int {
			n, err := disruption.DisruptionsLeft(p, o.tallies[p.Name], reason, o.now)
			if wrong := (*disruption.BudgetError)(nil); errors.As(err, &wrong) {
				problems = append(problems, input.Problem{
					Object: "NodePool " + p.Name, Field: wrong.Field,
					Message: wrong.Err.Error() + ": none of its nodes is removed until this is fixed",
				})
			}
			return n
		}
		out[p.Name] = consolidate.Allowance{Empty: left(karpv1.DisruptionReasonEmpty), Underutilized: left(karpv1.DisruptionReasonUnderutilized)}
	}
	return out, problems
}

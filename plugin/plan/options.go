package plan

import (
	"context"

	"github.com/slipway-k8s/slipway/plugin/plan/budget"
)

// Options say how a plan is made; the zero value is the default of each.
type Options struct {
	// Budget is how much work planning may be, as a multiple of the default: about a second of CPU for 10,000 pods. Plans
	// are better with more, never more expensive. Less than 1 is for those in a hurry; 0 for 1.
	Budget float64
	// NodeShare is the largest share of the input's pods that one node may hold, 0.2 for a fifth; 0 for no limit. One pod,
	// or those that must share a node, may always be on one.
	NodeShare float64
	// SpotShare is the largest share of the input's pods on spot instances of one type in one zone, as far as other nodes
	// cost at most SpotPremium more; 0 for 0.5, 1 or more for no limit.
	SpotShare float64
	// SpotPremium is how much more a node may cost for SpotShare, or to be no bare metal: 0 for 0.1, a tenth.
	SpotPremium float64
}

// questionWork is the most work of one question, in the units of packing: twice what the largest batch is worth where both patterns
// and resource prices are tried, and some seconds of CPU. Only a question that packs again and again ends with it.
const questionWork = 100_000_000

// budget returns the budget of one question: of all the work that is done for one call of Make, Extend or LowerBound.
func (o Options) budget(ctx context.Context) *budget.Budget {
	return budget.New(ctx, int(questionWork*max(or(o.Budget, 1), 1)))
}

// over reports whether no more work is to be done for the question.
func (in *Input) over() bool { return in.budget.Spent() || in.budget.Cancelled() }

// or is the value, or its default where it is 0.
func or(value, byDefault float64) float64 {
	if value == 0 {
		return byDefault
	}
	return value
}

// The default of Options.SpotShare and SpotPremium.
const (
	defaultSpotShare   = 0.5
	defaultSpotPremium = 0.1
)

// efforts are the multiples of the default work that are tried one after the other: the best result counts, so that a
// larger budget never gives a more expensive plan. A sketch gets a quarter of the default.
func (o Options) efforts(sketch bool) []float64 {
	most := or(o.Budget, 1)
	if sketch {
		return []float64{min(most, 1) / 4}
	}
	out := []float64{min(most, 1)}
	for f := 4.0; f <= most; f *= 4 {
		out = append(out, f)
	}
	return out
}

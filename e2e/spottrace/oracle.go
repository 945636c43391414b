package spottrace

import (
	"context"
	"maps"
	"math"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// oracle returns what no nodes for the pods cost less than, in USD per hour, with the spot offerings that are available in the step.
func (w *world) oracle(ctx context.Context) (float64, error) {
	fresh := newWorld(w.cfg, w.base)
	fresh.now = w.now
	m := fresh.at(func(_ interruption.Offering, q Quote) bool { return q.Available })
	out, err := simulate.Run(ctx, fresh.objects(nil, nil), m, simulate.Options{PreferenceShare: 0.1})
	if err != nil {
		return 0, err
	}
	return out.LowerBound(ctx), nil
}

// onDemand stands for the cheapest node on demand among the offerings of payingOracle.
func onDemand() interruption.Offering { return interruption.Offering{} }

// payingOracle returns what an oracle pays that knows the whole trace and has the cost of an eviction for each pod that changes its offering. Nodes
// are divisible for it: a pod costs its share of a full node. Each pod then takes the cheapest way through the offerings by itself, and those of
// the floor are on demand all the time. No policy that moves pods at that cost pays less.
func payingOracle(cfg Config, types []catalog.InstanceType, prices map[string]float64, floor int) float64 {
	pod := newPod(0).Spec.Containers[0].Resources.Requests
	fits, fixed, cheapest := map[string]float64{}, map[string]float64{}, math.Inf(1)
	for i := range types {
		t := &types[i]
		room := float64(t.Allocatable.Pods().Value())
		for name, need := range pod {
			have := t.Allocatable[name]
			room = min(room, math.Floor(have.AsApproximateFloat64()/need.AsApproximateFloat64()))
		}
		if room >= 1 {
			fits[t.Name], fixed[t.Name] = room, t.Charges.Fixed()
			cheapest = min(cheapest, (prices[t.Name]+fixed[t.Name])/room)
		}
	}
	const move = evicted
	paid := map[interruption.Offering]float64{}
	for i, now := range cfg.Trace {
		best := math.Inf(1)
		for _, cost := range paid {
			best = min(best, cost+move)
		}
		if i == 0 {
			best = 0
		}
		next := map[interruption.Offering]float64{onDemand(): cheapest * step.Hours()}
		for o, q := range now {
			if q.Available && fits[o.InstanceType] > 0 {
				next[o] = (q.Price + fixed[o.InstanceType]) / fits[o.InstanceType] * step.Hours()
			}
		}
		for o := range next {
			before, stayed := paid[o]
			if !stayed {
				before = best
			}
			next[o] += min(before, best)
		}
		paid = next
	}
	least := math.Inf(1)
	for cost := range maps.Values(paid) {
		least = min(least, cost)
	}
	return float64(floor)*cheapest*float64(len(cfg.Trace))*step.Hours() + float64(cfg.Pods-floor)*least
}

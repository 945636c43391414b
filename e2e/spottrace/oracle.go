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

// roomOf returns how many pods of the workload an empty node of the type has room for.
func roomOf(t *catalog.InstanceType) float64 {
	room := float64(t.Allocatable.Pods().Value())
	for name, need := range newPod(0).Spec.Containers[0].Resources.Requests {
		have := t.Allocatable[name]
		room = min(room, math.Floor(have.AsApproximateFloat64()/need.AsApproximateFloat64()))
	}
	return room
}

// wholeOracle returns what no nodes of the only instance type cost less than, since a node is paid as a whole; 0 where there are several types. In
// each step there are as many nodes on demand as the pods of the floor need, and as many in all as all pods need. Moves cost nothing.
func wholeOracle(cfg Config, types []catalog.InstanceType, prices map[string]float64, floor int) float64 {
	if len(types) != 1 || roomOf(&types[0]) < 1 {
		return 0
	}
	t, room := &types[0], roomOf(&types[0])
	kept, all := math.Ceil(float64(floor)/room), math.Ceil(float64(cfg.Pods)/room)
	sum := 0.0
	for _, now := range cfg.Trace {
		cheapest := prices[t.Name]
		for o, q := range now {
			if q.Available && o.InstanceType == t.Name {
				cheapest = min(cheapest, q.Price)
			}
		}
		sum += (kept*prices[t.Name] + (all-kept)*cheapest + all*t.Charges.Fixed()) * step.Hours()
	}
	return sum
}

// payingOracle returns what an oracle pays that knows the whole trace and has the cost of an eviction for each pod that changes its offering. Nodes
// are divisible for it: a pod costs its share of a full node. Each pod then takes the cheapest way through the offerings by itself, and those of
// the floor are on demand all the time. No policy that moves pods at that cost pays less.
func payingOracle(cfg Config, types []catalog.InstanceType, prices map[string]float64, floor int) float64 {
	fits, fixed, cheapest := map[string]float64{}, map[string]float64{}, math.Inf(1)
	for i := range types {
		t := &types[i]
		if room := roomOf(t); room >= 1 {
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

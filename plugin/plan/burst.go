package plan

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/binpack"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// bins are the offers as packing sees them, and which offer each is. A burstable instance costs more once its pods request more CPU than its
// baseline: a bin has one price, so that such an offer is several bins, each with as much CPU as its price pays for.
type bins struct {
	list []binpack.Bin
	// partial are the bins that have only a part of the CPU of their offer. They follow the offers, whose bins have all of it.
	partial []partialBin
	// lossy means that prices of bins include expected losses of as many pods as they may hold.
	lossy bool
}

// partialBin is a bin with a part of the CPU of its offer.
type partialBin struct {
	offer int
	// cpu is what pods may request, in thousandths.
	cpu int64
}

// The prices of the bins of one offer grow by these factors. A plan's bin costs as much as a node with all its CPU in use. A lower bound's bin
// costs as much as one with all the CPU of the bin before in use: no node costs less than its bin. Where other instances may be bought they are
// cheaper than much surplus, and a plan does with few bins for each burstable offer; where most offers are burstable it has more.
const (
	planGrowth  = 4.0
	fineGrowth  = 1.15
	boundGrowth = 1.1
)

// splitting says how an offer is split into bins.
type splitting struct {
	// bound says that no node may cost less than its bin.
	bound bool
	// growth is the factor by which the prices of the bins of one offer grow.
	growth float64
	// step is what the CPU of all units is a multiple of, in thousandths; 0 for unknown.
	step int64
}

// newBins returns the bins of a plan for units that need so much together, or those of a lower bound.
func newBins(mk *market, bound bool, need vec, units []unit) bins {
	out := bins{list: make([]binpack.Bin, len(mk.offers))}
	for oi := range mk.offers {
		o := &mk.offers[oi]
		out.list[oi] = binpack.Bin{Pool: o.pool, Group: o.shape, Price: o.Price, Free: binpack.Vec(o.free), Usage: usageOf(mk, oi)}
	}
	s := splittingOf(mk.offers, bound, units)
	for oi := range mk.offers {
		out.split(mk, oi, s)
		if !bound {
			out.addLoss(&mk.offers[oi], oi, need)
		}
	}
	return out
}

// lossThatMatters is the share of a bin's price from which on the expected loss of its pods is looked at: a smaller one changes no choice.
const lossThatMatters = 0.005

// addLoss adds the expected loss of a full node to the price of an offer's bins, if it matters.
func (b *bins) addLoss(o *offer, oi int, need vec) {
	pods := need[dimPods]
	if o.LossPerPod <= 0 || pods == 0 {
		return
	}
	full := float64(o.free[dimPods])
	for d := range need {
		if need[d] > 0 {
			full = min(full, float64(o.free[d])/float64(need[d])*float64(pods))
		}
	}
	loss := o.LossPerPod * min(full, float64(pods))
	if loss < lossThatMatters*o.Price {
		return
	}
	b.lossy = true
	b.list[oi].Price += loss
	for i := len(b.partial) - 1; i >= 0 && b.partial[i].offer == oi; i-- {
		b.list[len(b.list)-len(b.partial)+i].Price += loss
	}
}

// splittingOf returns how offers are split for the units.
func splittingOf(offers []offer, bound bool, units []unit) splitting {
	if bound {
		return splitting{bound: true, growth: boundGrowth}
	}
	burstable := 0
	for oi := range offers {
		if offers[oi].charges.BaselineCPU > 0 {
			burstable++
		}
	}
	if 2*burstable <= len(offers) {
		return splitting{growth: planGrowth}
	}
	out := splitting{growth: fineGrowth}
	for i := range units {
		for cpu := units[i].need[dimCPU]; cpu != 0; {
			out.step, cpu = cpu, out.step%cpu // Euclid's algorithm.
		}
	}
	return out
}

// floor is the most that units can request of so much CPU.
func (s splitting) floor(cpu int64) int64 {
	if s.step > 0 {
		return cpu - cpu%s.step
	}
	return cpu
}

// split adds the partial bins of an offer, and sets the price of its whole one.
func (b *bins) split(mk *market, oi int, s splitting) {
	o := &mk.offers[oi]
	charges, daemons := o.charges, o.daemonCPU()
	whole := o.free[dimCPU]
	cpu := max(charges.BaselineCPU-daemons, 0)
	if charges.BaselineCPU == 0 || cpu >= whole {
		return
	}
	price := o.Price + charges.Burst(daemons)
	last := int64(0)
	for ; cpu < whole; cpu += max(int64(1000*(s.growth-1)*price/charges.SurplusCPU), s.step, 1) {
		full, bin := o.Price+charges.Burst(daemons+cpu), b.list[oi]
		bin.Price, bin.Free = price, slices.Clone(bin.Free)
		price = full
		held := s.floor(cpu)
		if held <= last {
			continue
		}
		last = held
		if !s.bound {
			bin.Price = o.Price + charges.Burst(daemons+held)
		}
		bin.Free[dimCPU] = held
		b.list, b.partial = append(b.list, bin), append(b.partial, partialBin{oi, held})
	}
	if !s.bound {
		price = o.Price + charges.Burst(daemons+s.floor(whole))
	}
	b.list[oi].Price = price
}

// offer returns the offer of a bin.
func (b *bins) offer(bin int) int {
	if whole := len(b.list) - len(b.partial); bin >= whole {
		return b.partial[bin-whole].offer
	}
	return bin
}

// fits returns the bins that hold one item that requests so much CPU, of the offers that do.
func (b *bins) fits(offers bitset.Set, cpu int64) bitset.Set {
	if len(b.partial) == 0 {
		return offers
	}
	out, whole := bitset.New(len(b.list)), len(b.list)-len(b.partial)
	copy(out, offers)
	for i, p := range b.partial {
		if p.cpu >= cpu && offers.Has(p.offer) {
			out.Add(whole + i)
		}
	}
	return out
}

// daemonCPU returns the CPU that the daemon pods on a node of the offer request, in thousandths.
func (o *offer) daemonCPU() int64 { return o.cpu - o.free[dimCPU] }

// cost returns what a node of the offer costs in USD per hour with pods that request the sum.
func (o *offer) cost(sum vec) float64 {
	return o.Price + o.charges.Burst(o.daemonCPU()+sum[dimCPU]) + o.LossPerPod*float64(sum[dimPods])
}

// bursts reports whether pods that request the sum use more CPU than the baseline of the offer's instance.
func (o *offer) bursts(sum vec) bool { return o.charges.Burst(o.daemonCPU()+sum[dimCPU]) > 0 }

// rougher reports whether the interruptions of pods that request the sum are expected to cost notably more there than on a node of the other offer.
// EC2, which knows prices alone, would choose it.
func (o *offer) rougher(than *offer, sum vec) bool {
	return (o.LossPerPod-than.LossPerPod)*float64(sum[dimPods]) > lossThatMatters*than.Price
}

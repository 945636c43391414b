package plan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// probation is the offers whose launches failed lately, and spot offers that have not settled since EC2 took their nodes back. A node of them may
// never come, or not stay: it is to hold only pods that can run nowhere else.
type probation struct {
	// offers on probation; nil for none.
	offers bitset.Set
	names  map[offerName]bool
	// buyable says that a node of an offer can be launched now.
	buyable func(oi int) bool
}

// offerName is how the catalog names an offer.
type offerName struct{ pool, instanceType, zone, capacityType string }

// newProbation lists the market's offers on probation. Those of a pool with strict minValues are left out: without them the
// pool might lack the values that it needs for a node of other offers.
func newProbation(mk *market, now time.Time, minValuesBestEffort bool) probation {
	p := probation{names: map[offerName]bool{}, buyable: func(oi int) bool { return mk.available.Has(oi) && mk.withinLimits(oi) }}
	several := func(r catalog.Requirement) bool { return r.MinValues > 1 }
	for oi := range mk.offers {
		o := &mk.offers[oi]
		in := &mk.pools[o.pool]
		if !o.Probation && !Unsettled(o.Offering, now) || !minValuesBestEffort && slices.ContainsFunc(in.Requirements, several) {
			continue
		}
		if p.offers == nil {
			p.offers = bitset.New(len(mk.offers))
		}
		p.offers.Add(oi)
		p.names[offerName{in.Name, mk.types[o.shape].Name, o.Zone, o.CapacityType}] = true
	}
	return p
}

// Unsettled reports whether EC2 took nodes of the offering back, or refused them, not long ago. A plan without a time does not look at that, and has a zero now.
func Unsettled(o catalog.Offering, now time.Time) bool {
	return !now.IsZero() && o.SettlesAt.After(now)
}

// spared is fits without the offers on probation if others can be bought; else it is fits itself, and false.
func (p *probation) spared(fits bitset.Set) (bitset.Set, bool) {
	if p.offers == nil {
		return fits, false
	}
	out, proven := p.without(fits), false
	out.Each(func(oi int) { proven = proven || p.buyable(oi) })
	if !proven {
		return fits, false
	}
	return out, true
}

// without is fits less the offers on probation.
func (p *probation) without(fits bitset.Set) bitset.Set {
	out := fits.Clone()
	for w, x := range p.offers {
		out[w] &^= x
	}
	return out
}

// doubtful says that a node of the catalog, or a claim of this plan, may never come: EC2 has not launched it, and the offering
// that it is expected to have is on probation.
func (p *probation) doubtful(n *Node, inFlight map[string]catalog.InFlightNode) bool {
	if f, ok := inFlight[n.Name]; ok {
		return f.Phase <= catalog.PhaseRecorded && p.names[offerName{f.NodePool, f.InstanceType, f.Zone, f.CapacityType}]
	}
	l := n.Labels
	return strings.HasPrefix(n.Name, plannedPrefix) &&
		p.names[offerName{l[labelNodePool], l[corev1.LabelInstanceTypeStable], l[corev1.LabelTopologyZone], l[labelCapacityType]}]
}

package plan

import (
	"math"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// restShare is how much of what the commitments had for a batch is not worth packing again for. It would be used for the smallest nodes.
const restShare = 0.02

// compileCommitments notes what is left of the commitments after the nodes that there are.
func (s *supplies) compileCommitments(in *Input) {
	list := in.Catalog.Commitments
	if len(list) == 0 {
		return
	}
	if s.left == nil {
		s.left = map[string]int64{}
	}
	s.rests = map[string]int64{}
	left := commitment.Apply(list, in.Catalog.Uses(in.billed(nil))).Left
	pools := commitment.Pools(list)
	for i := range pools {
		id, amount := commitmentSupply(&pools[i]), int64(math.Round(pools[i].LeftOf(left)*commitmentUnit))
		s.left[id], s.rests[id] = amount, amount
	}
}

// billed counts the nodes that commitments may pay for. EC2 bills no instance that is stopped: those that sleep count if they are woken.
func (in *Input) billed(woken map[string]bool) map[catalog.Billed]int {
	out := map[catalog.Billed]int{}
	for i := range in.Nodes {
		labels := in.Nodes[i].Labels
		if f, ok := in.Catalog.InFlight[in.Nodes[i].Name]; ok {
			if f.Sleeps() && !woken[in.Nodes[i].Name] {
				continue
			}
			labels = f.ExpectedLabels(labels)
		}
		if b, ok := catalog.BilledOnDemand(labels); ok {
			out[b]++
		}
	}
	return out
}

// giveUpRests leaves what is left of commitments that are all but used up.
func (s *supplies) giveUpRests() {
	for id, at := range s.rests {
		if float64(s.left[id]) < restShare*float64(at) {
			s.left[id] = 0
		}
	}
}

// apart returns the units that no interruptible offer takes, and the others, each with the counts of the other ones zero; nil if there are no
// commitments or only units of one of the two. On a node of both, what commitments pay for looks as if it were needed for all of its pods.
func (s *supplies) apart(p *problem) (steady, rest []unit) {
	if s.rests == nil {
		return nil, nil
	}
	spot := s.market.each(p.may, func(oi int) bool { return catalog.CapacityTypeOf(s.market.offers[oi].CapacityType).Interruptible })
	steady, rest = slices.Clone(p.units), slices.Clone(p.units)
	counts := [2]int{}
	for ui := range p.units {
		fits := p.units[ui].fits.Clone()
		fits.Intersect(spot)
		if fits.Empty() {
			counts[0] += steady[ui].count
			rest[ui].count = 0
		} else {
			counts[1] += rest[ui].count
			steady[ui].count = 0
		}
	}
	if counts[0] == 0 || counts[1] == 0 {
		return nil, nil
	}
	return steady, rest
}

// packApart packs the units that no interruptible offer takes first: what commitments hold saves most for them.
func (m *model) packApart(pk *packing, steady, rest []unit) {
	weight := pk.problem.weight
	first := m.packRationed(steady, weight)
	second := m.packRationed(rest, weight)
	left := make([]int, len(steady))
	for ui := range left {
		left[ui] = first.best.left[ui] + second.best.left[ui]
	}
	pk.best = solution{nodes: slices.Concat(first.best.nodes, second.best.nodes), left: left}
	pk.firstFit = max(first.firstFit+second.firstFit, pk.problem.cost(pk.best.nodes))
}

// coveredLike returns the offer, by its index, for the same nodes that the commitments of the expected one pay for. It is the offer itself if
// none pays for the expected one or if they cannot pay for offers of this capacity type; -1 if they do not pay for this one.
func (s *supplies) coveredLike(oi int, expected *offer) int {
	o := &s.market.offers[oi]
	if expected.covered == "" || o.CapacityType != expected.CapacityType {
		return oi
	}
	for at := oi + 1; at < len(s.market.offers); at++ {
		switch x := &s.market.offers[at]; {
		case x.shape != o.shape || x.covered == "":
			return -1
		case x.supply == expected.supply:
			return at
		}
	}
	return -1
}

// replaces reports whether a node may be launched as the offer in place of the expected one, as far as their supplies are concerned: what the
// expected one takes from commitments is there for the other one.
func (s *supplies) replaces(oi int, expected *offer) bool {
	o := &s.market.offers[oi]
	left, limited := s.left[o.supply]
	switch {
	case o.covered != expected.covered && o.CapacityType == expected.CapacityType:
		return false
	case o.covered != "" && o.supply == expected.supply:
		left += expected.draw
	}
	return !limited || left >= o.draw
}

// CommitmentUses returns how much of each commitment of the input is used once the plan's nodes run.
func CommitmentUses(in Input, p *Plan) []catalog.CommitmentUse {
	woken := map[string]bool{}
	for i := range p.Placements {
		woken[p.Placements[i].Node] = true
	}
	counts := in.billed(woken)
	for i := range p.Claims {
		if b, ok := catalog.BilledOnDemand(p.Claims[i].Labels); ok {
			counts[b]++
		}
	}
	return in.Catalog.CommitmentUses(counts)
}

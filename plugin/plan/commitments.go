package plan

import (
	"math"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// restShare is how much of what the commitments had for a batch is not worth packing again for. It would be used for the smallest nodes.
const restShare = 0.05

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
	left := commitment.Apply(list, in.Catalog.Uses(in.billed())).Left
	pools := commitment.Pools(list)
	for i := range pools {
		id, amount := commitmentSupply(&pools[i]), int64(math.Round(pools[i].LeftOf(left)*commitmentUnit))
		s.left[id], s.rests[id] = amount, amount
	}
}

// billed counts the nodes that commitments may pay for.
func (in *Input) billed() map[catalog.Billed]int {
	out := map[catalog.Billed]int{}
	for i := range in.Nodes {
		labels := in.Nodes[i].Labels
		if f, ok := in.Catalog.InFlight[in.Nodes[i].Name]; ok {
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
	counts := in.billed()
	for i := range p.Claims {
		if b, ok := catalog.BilledOnDemand(p.Claims[i].Labels); ok {
			counts[b]++
		}
	}
	return in.Catalog.CommitmentUses(counts)
}

package plan

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// randomOffers returns offers with some free resources, of which types of equal size share what they have.
func randomOffers(rng *rand.Rand, n int) []offer {
	out := make([]offer, n)
	for i := range out {
		free := vec{int64(rng.IntN(60)), int64(rng.IntN(17)) * 1000, int64(rng.IntN(65)) << 30, int64(rng.IntN(3)-1) << 30}
		out[i] = offer{Offering: catalog.Offering{Price: 0.01 + rng.Float64()}, free: free}
	}
	return out
}

// randomNeed returns what a pod may ask for, of some dimensions nothing.
func randomNeed(rng *rand.Rand) vec {
	need := vec{1, int64(rng.IntN(20)) * 1000, int64(rng.IntN(80)) << 29, 0}
	if rng.IntN(4) == 0 {
		need[dimStorage] = 1 << 29
	}
	return need
}

// The offers that the index of sizes keeps, and the cheapest of a place, are those of a look at each offer.
func TestOffersBySizeAndPrice(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 50 {
		offers := randomOffers(rng, 1+rng.IntN(200))
		by := newSizes(offers, 4)
		p := place{rates: make([][]rate, 4)}
		for oi := range offers {
			p.offers = append(p.offers, oi)
		}
		for range 3 * fewQuestions {
			need, fits := randomNeed(rng), bitset.New(len(offers))
			for oi := range offers {
				if rng.IntN(3) > 0 {
					fits.Add(oi)
				}
			}
			want, least := fits.Clone(), math.Inf(1)
			for oi := range offers {
				if !want.Has(oi) {
					continue
				}
				if !offers[oi].free.holds(need) {
					want.Remove(oi)
					continue
				}
				least = min(least, offers[oi].Price*share(need, offers[oi].free))
			}
			by.keep(fits, need)
			for oi := range offers {
				if fits.Has(oi) != want.Has(oi) {
					t.Fatalf("an offer with %v free is kept for %v: %t", offers[oi].free, need, fits.Has(oi))
				}
			}
			if got := p.cheapest(offers, fits, need); got != least && math.Abs(got-least) > 1e-9*least {
				t.Fatalf("%v costs %v at least, want %v", need, got, least)
			}
		}
	}
}

package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// places are the combinations of label values under some keys that a new node can have.
// Units ask for them again and again: where one can go costs a look at a few offers, not at each.
type places []place

// place is the offers of a NodePool whose nodes can have the same values, that can be bought now.
type place struct {
	weight int32
	// values are the combinations, names distinguishes them.
	values []map[string]string
	names  []string
	set    bitset.Set
	offers []int
	// asked is how often the place was asked what it costs.
	asked int
	// rates are the offers by what they charge for one of a dimension, the cheapest first; nil for a dimension that was not asked for.
	rates [][]rate
}

// rate is what an offer charges for one of a dimension, in USD per hour.
type rate struct {
	price float64
	offer int
}

// domains returns the domains in which some of the offers take the need, the cheapest first.
func (l places) domains(offers []offer, fits bitset.Set, need vec) []relations.Domain {
	found := map[string]*pricedDomain{}
	for i := range l {
		p := &l[i]
		cost := p.cheapest(offers, fits, need)
		if math.IsInf(cost, 1) {
			continue
		}
		for j, name := range p.names {
			if d := found[name]; d != nil {
				d.join(cost, p.weight)
			} else {
				found[name] = &pricedDomain{relations.Domain{Values: p.values[j], Name: name, Weight: p.weight}, cost}
			}
		}
	}
	return rankDomains(found)
}

// fewQuestions is how often a place looks at all of its offers before sorting them is worth it.
const fewQuestions = 16

// cheapest returns the least price of the need's share of an offer in USD per hour, infinite if none of the offers takes it.
func (p *place) cheapest(offers []offer, fits bitset.Set, need vec) float64 {
	best := math.Inf(1)
	if p.asked++; p.asked <= fewQuestions {
		for _, oi := range p.offers {
			if fits.Has(oi) {
				best = min(best, offers[oi].Price*share(need, offers[oi].free))
			}
		}
		return best
	}
	scarce, most := -1, 0.0
	for d, n := range need {
		if n > 0 {
			rates := p.ratesOf(offers, d)
			if x := rates[len(rates)/2].price * float64(n); scarce < 0 || x > most {
				scarce, most = d, x
			}
		}
	}
	if scarce < 0 {
		return best
	}
	for _, r := range p.rates[scarce] {
		// A share of a node costs at least what its part of one dimension does.
		if r.price*float64(need[scarce]) >= best {
			break
		}
		if fits.Has(r.offer) {
			best = min(best, offers[r.offer].Price*share(need, offers[r.offer].free))
		}
	}
	return best
}

// ratesOf returns the rates of the dimension.
func (p *place) ratesOf(offers []offer, d int) []rate {
	if p.rates[d] == nil {
		p.rates[d] = make([]rate, len(p.offers))
		for i, oi := range p.offers {
			p.rates[d][i] = rate{offers[oi].Price / float64(max(offers[oi].free[d], 1)), oi}
		}
		slices.SortStableFunc(p.rates[d], func(a, b rate) int { return cmp.Compare(a.price, b.price) })
	}
	return p.rates[d]
}

// pricedDomain is a domain with what the unit's share of a node costs there, in USD per hour. Its weight is that of the heaviest pool that
// has it: its domains come first.
type pricedDomain struct {
	relations.Domain
	cost float64
}

// join adds another offer to the domain: those of the heaviest pools say what it costs.
func (d *pricedDomain) join(cost float64, weight int32) {
	switch {
	case weight > d.Weight:
		d.cost, d.Weight = cost, weight
	case weight == d.Weight:
		d.cost = min(d.cost, cost)
	}
}

// rankDomains returns the domains, the cheapest first, those of the heaviest pools before all others. They are ranked in steps of 2%.
func rankDomains(found map[string]*pricedDomain) []relations.Domain {
	var out []relations.Domain
	least := math.Inf(1)
	for _, d := range found {
		least = min(least, d.cost)
	}
	for _, d := range found {
		if least > 0 {
			d.Rank = int(math.Log(d.cost/least) / math.Log(1.02))
		}
		out = append(out, d.Domain)
	}
	slices.SortFunc(out, func(a, b relations.Domain) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Name, b.Name))
	})
	return out
}

func domainName(values map[string]string, keys []string) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = values[k]
	}
	return strings.Join(parts, "\x00")
}

// maxTuples is how many combinations of the values of labels that a NodePool leaves open are looked at: their number is the product over
// the labels. Where there are more, each value of a label is combined with another one of the labels before, and not with all of them.
const maxTuples = 256

// placeKey is equal for places of one NodePool with the same labels under the keys.
func placeKey(pool int, keys []string, at relations.Lookup) string {
	b := strconv.AppendInt(nil, int64(pool), 10)
	for _, k := range keys {
		if v, ok := at(k); ok {
			b = append(append(b, 0), v...)
		} else {
			b = append(b, 1)
		}
	}
	return string(b)
}

// tuples are the combinations of values that a node of the offer can have under the keys; a key that it lacks is absent.
func (mk *market) tuples(demands []catalog.Requirements, oi int, keys []string) []map[string]string {
	out := []map[string]string{{}}
	for _, k := range keys {
		values := mk.values(demands, oi, k)
		if len(values) == 0 {
			continue
		}
		var next []map[string]string
		if len(out)*len(values) > maxTuples {
			for i := range min(max(len(out), len(values)), maxTuples) {
				c := map[string]string{k: values[i%len(values)]}
				maps.Copy(c, out[i%len(out)])
				next = append(next, c)
			}
			out = next
			continue
		}
		if mk.mayLack(demands, oi, k) {
			next = slices.Clone(out)
		}
		for _, t := range out {
			for _, v := range values {
				c := map[string]string{k: v}
				maps.Copy(c, t)
				next = append(next, c)
			}
		}
		out = next
	}
	return out
}

package day

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws/meter"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// sameNodes is a linear program about the nodes that a replay ran: for each of them, with its lifetime and the most that its pods ever requested
// together, the program buys one offering that the node's NodePool allows and that holds these pods. It knows all commitments and all spot prices of
// the day. For each node and hour it chooses between spot, on demand, and what a commitment pays for, in parts where that costs less. So it answers how
// much less the day could have cost with the same pods on the same nodes, had other offerings been bought or commitments been used in another way.
type sameNodes struct {
	// nodes are those that cost something.
	nodes []nodeChoice
	// given is how much each commitment has in each hour, in the unit of its draws, by commitment and hour.
	given [][]float64
	// sunk is what commitments and volumes cost whatever is bought, in USD.
	sunk float64
}

// nodeChoice are the offerings that a node could have had.
type nodeChoice []lifetime

// lifetime is what a node costs with one offering, hour by hour.
type lifetime []hourOf

// hourOf is a clock hour of a node with one offering.
type hourOf struct {
	// hour is its index within the day.
	hour int
	// usd is what it costs if no commitment pays for it.
	usd float64
	// draws are what it uses of each commitment if that pays for it; 0 for commitments that do not.
	draws []float64
}

// sameNodes returns the program of the replay that the books are of, whose bill it was until an end.
func (b *books) sameNodes(types []catalog.InstanceType, pools map[string]catalog.NodePool, bill meter.Bill) (*sameNodes, error) {
	end := bill.To
	out := &sameNodes{sunk: bill.Committed() + bill.Sum().Volumes, given: make([][]float64, len(b.plans))}
	for i := range b.plans {
		for at := b.begin; at.Before(end); at = nextHour(at) {
			out.given[i] = append(out.given[i], b.plans[i].Amount()*minTime(nextHour(at), end).Sub(at).Hours())
		}
	}
	for i, l := range b.lives {
		if bill.Lines[i].Hours == 0 {
			continue // It never ran, or EC2 took it back within its first hour, which is free.
		}
		pool := pools[l.node.Labels[karpv1.NodePoolLabelKey]]
		allowed, err := catalog.NewRequirements(pool.Requirements)
		if err != nil {
			return nil, fmt.Errorf("reading the requirements of NodePool %s: %w", pool.Name, err)
		}
		var choice nodeChoice
		for t := range types {
			if holds(types[t].Allocatable, l.peak) {
				choice = append(choice, b.lifetimes(l, &types[t], allowed, end)...)
			}
		}
		if len(choice) == 0 {
			return nil, fmt.Errorf("no instance type holds the pods of node %s: %v", l.node.Name, l.peak)
		}
		out.nodes = append(out.nodes, choice)
	}
	return out, nil
}

// lifetimes returns what the node would have cost as an instance of the type, in each zone.
func (b *books) lifetimes(l *life, t *catalog.InstanceType, allowed catalog.Requirements, end time.Time) []lifetime {
	may := func(zone, capacityType string) bool {
		labels := map[string]string{corev1.LabelTopologyZone: zone, karpv1.CapacityTypeLabelKey: capacityType}
		maps.Copy(labels, t.Labels)
		_, ok := allowed.Match(labels)
		return ok
	}
	known, _ := b.table.Get(t.Name)
	onDemand := known.Price
	var out []lifetime
	for _, zone := range zones() {
		spot, steady := may(zone, karpv1.CapacityTypeSpot), may(zone, karpv1.CapacityTypeOnDemand)
		if !spot && !steady {
			continue
		}
		var life lifetime
		for from := l.history.Running; from.Before(l.ends(end)); from = nextHour(from) {
			to := minTime(nextHour(from), l.ends(end))
			one := hourOf{hour: int(from.Sub(b.begin).Hours()), usd: math.Inf(1), draws: make([]float64, len(b.plans))}
			if spot {
				one.usd = b.spotUSD(place{zone, t.Name}, from, to)
			}
			if steady {
				one.usd = min(one.usd, onDemand*to.Sub(from).Hours())
				for i := range b.plans {
					if draw, ok := b.plans[i].Draw(t.Name, zone, onDemand); ok {
						one.draws[i] = draw * to.Sub(from).Hours()
					}
				}
			}
			life = append(life, one)
		}
		out = append(out, life)
	}
	return out
}

// ends is when the node is paid no longer.
func (l *life) ends(end time.Time) time.Time {
	if l.history.Ending.IsZero() {
		return end
	}
	return minTime(l.history.Ending, end)
}

// spotUSD returns what an instance costs on spot for a time.
func (b *books) spotUSD(of place, from, to time.Time) float64 {
	sum, rates := 0.0, b.spot[of]
	for i, r := range rates {
		begin, until := from, to
		if i > 0 && r.From.After(begin) {
			begin = r.From
		}
		if i+1 < len(rates) {
			until = minTime(until, rates[i+1].From)
		}
		if begin.Before(until) {
			sum += r.USD * until.Sub(begin).Hours()
		}
	}
	return sum
}

func nextHour(at time.Time) time.Time { return at.Truncate(time.Hour).Add(time.Hour) }

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// holds reports whether a node with so much has room for the requests.
func holds(allocatable, requests corev1.ResourceList) bool {
	for name, want := range requests {
		if have := allocatable[name]; have.Cmp(want) < 0 {
			return false
		}
	}
	return true
}

// ascentSteps is how often the multipliers of the commitments move.
const ascentSteps = 2000

// least returns what the linear program pays, or a little less: the program's Lagrangian dual, which no solution is below whatever the multipliers of
// the commitments are (Geoffrion 1974). A multiplier says what one of a commitment's unit is worth in an hour. Subgradient steps look for those at
// which the dual is largest (Held, Wolfe and Crowder 1974). known is what some solution costs.
func (s *sameNodes) least(known float64, list []commitment.Commitment) float64 {
	at, used := make([][]float64, len(s.given)), make([][]float64, len(s.given))
	for i := range at {
		at[i], used[i] = make([]float64, len(s.given[i])), make([]float64, len(s.given[i]))
		for h := range at[i] {
			at[i][h] = s.firstWorth(i, list)
		}
	}
	best, scale, since := math.Inf(-1), 1.0, 0
	from := at
	for range ascentSteps {
		value := s.dual(at, used)
		if since++; value > best+1e-9 {
			best, since, from = value, 0, clone(at)
		} else if since > ascentSteps/50 {
			scale, since, at = scale/2, 0, clone(from)
			continue
		}
		// Shares of what is given: units of Reserved Instances and USD of Savings Plans differ by their price.
		norm := 0.0
		for i := range used {
			for h, given := range s.given[i] {
				if used[i][h] = used[i][h]/given - 1; at[i][h] > 0 || used[i][h] > 0 {
					norm += used[i][h] * used[i][h]
				}
			}
		}
		if norm < 1e-12 {
			break // All that is given is used, and no more.
		}
		step := scale * max(known-value, 0) / norm
		for i := range at {
			for h, given := range s.given[i] {
				at[i][h] = max(at[i][h]+step*used[i][h]/given, 0)
			}
		}
	}
	return best
}

func clone(at [][]float64) [][]float64 {
	out := make([][]float64, len(at))
	for i := range at {
		out[i] = slices.Clone(at[i])
	}
	return out
}

// firstWorth returns what one of a commitment's unit pays for on demand, on average over the offerings of the nodes.
func (s *sameNodes) firstWorth(i int, list []commitment.Commitment) float64 {
	if d := list[i].Discount; d > 0 {
		return 1 / (1 - d)
	}
	usd, draws := 0.0, 0.0
	for _, n := range s.nodes {
		for _, l := range n {
			for _, h := range l {
				if h.draws[i] > 0 && !math.IsInf(h.usd, 1) {
					usd, draws = usd+h.usd, draws+h.draws[i]
				}
			}
		}
	}
	return usd / max(draws, 1e-9)
}

// dual returns the Lagrangian dual at the multipliers, and in used what the cheapest choices use of each commitment.
func (s *sameNodes) dual(at, used [][]float64) float64 {
	sum := s.sunk
	for i := range used {
		clear(used[i])
		for h, x := range at[i] {
			sum -= x * s.given[i][h]
		}
	}
	for _, n := range s.nodes {
		least, chosen := math.Inf(1), lifetime(nil)
		for _, l := range n {
			usd := 0.0
			for k := range l {
				cost, _ := l[k].cheapest(at)
				usd += cost
			}
			if usd < least {
				least, chosen = usd, l
			}
		}
		sum += least
		for k := range chosen {
			if _, i := chosen[k].cheapest(at); i >= 0 {
				used[i][chosen[k].hour] += chosen[k].draws[i]
			}
		}
	}
	return sum
}

// cheapest returns the cheapest way to pay for the hour at the multipliers, and which commitment that is; -1 for none.
func (h *hourOf) cheapest(at [][]float64) (usd float64, commitment int) {
	usd, commitment = h.usd, -1
	for i, draw := range h.draws {
		if draw > 0 && at[i][h.hour]*draw < usd {
			usd, commitment = at[i][h.hour]*draw, i
		}
	}
	return usd, commitment
}

// addUp adds the requests of a pod to a sum.
func addUp(sum, requests corev1.ResourceList) {
	for name, q := range requests {
		have := sum[name]
		have.Add(q)
		sum[name] = have
	}
}

// loads notes the most that the pods of each node requested together.
func (b *books) loads(on map[string]corev1.ResourceList) {
	for name, requests := range on {
		l := b.open[name]
		if l.peak == nil {
			l.peak = corev1.ResourceList{}
		}
		for resource, q := range requests {
			if have := l.peak[resource]; q.Cmp(have) > 0 {
				l.peak[resource] = q
			}
		}
	}
}

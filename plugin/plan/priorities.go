package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// tierSteps is into how many parts the pods of one priority are cut to find how many the limits leave room for.
const tierSteps = 8

func allPods(in Input) []int {
	most := make([]int, len(in.Classes))
	for ci := range in.Classes {
		most[ci] = len(in.Classes[ci].Pods)
	}
	return most
}

// byPriority plans all pods together. Where limits of NodePools leave pods of higher priority without a node that pods of
// lower priority take, it plans tier by tier: each priority adds as many of its pods as leave those above it untouched.
func byPriority(in Input, w wants) Plan {
	out := attempt(in, w, allPods(in))
	if !inverted(in, &out) {
		return out
	}
	most := make([]int, len(in.Classes))
	var floors []floor
	first := out
	for i, tier := range tiers(in) {
		if in.over() {
			return first // All that have a node there keep it.
		}
		plan := func(step int) (Plan, []int, bool) {
			try := slices.Clone(most)
			for ci := range in.Classes {
				if n := len(in.Classes[ci].Pods); priority(in.Classes[ci].Pod) == tier {
					try[ci] = (n*step + tierSteps - 1) / tierSteps
				}
			}
			p := attempt(in, w, try)
			return p, try, !slices.ContainsFunc(floors, func(f floor) bool { return placed(in, &p, f.tier) < f.pods })
		}
		p, try, ok := plan(tierSteps)
		// Bisect: lo steps are known to be fine, hi steps are not.
		for lo, hi := 0, tierSteps; !ok && hi-lo > 1; {
			mid := (lo + hi) / 2
			if q, with, fine := plan(mid); fine {
				lo, p, try = mid, q, with
			} else {
				hi = mid
			}
			ok = hi-lo <= 1 && lo > 0
		}
		if in.budget.Cancelled() {
			return first
		}
		if ok || i == 0 {
			out, most = p, try
		}
		topUp(in, w, &out, most, tier)
		if more, ok := regain(in, w, &out, tier); ok {
			out = more
			for ci := range most {
				most[ci] = placedOf(in, &out, ci)
			}
		}
		floors = append(floors, floor{tier, placed(in, &out, tier)})
	}
	return out
}

// topUp adds to the plan, and to most, the pods of at least the priority that what was planned leaves room for.
func topUp(in Input, w wants, out *Plan, most []int, least int32) {
	asked := slices.Clone(most)
	for ci := range in.Classes {
		if priority(in.Classes[ci].Pod) >= least {
			asked[ci] = len(in.Classes[ci].Pods)
		}
	}
	fillUp(in, w, out, most, asked)
}

// floor is how many pods of at least the priority a plan must place.
type floor struct {
	tier int32
	pods int
}

// tiers are the priorities of the input, highest first.
func tiers(in Input) []int32 {
	var out []int32
	for _, c := range in.Classes {
		if p := priority(c.Pod); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Compare(b, a) })
	return out
}

// inverted says that limits keep a pod off that is more important than one that has a new node.
func inverted(in Input, p *Plan) bool {
	least, found := int32(0), false
	for _, c := range p.Claims {
		for _, x := range c.Members {
			if prio := priority(in.Classes[x.Class].Pod); !found || prio < least {
				least, found = prio, true
			}
		}
	}
	return found && slices.ContainsFunc(p.Unplaced, func(u Unplaced) bool {
		return priority(in.Classes[u.Class].Pod) > least && slices.ContainsFunc(u.Reasons, func(r Reason) bool { return r.limited(in) })
	})
}

// limited says that limits may be what the reason is about: of more types than one a claim counts as the largest.
func (r *Reason) limited(in Input) bool {
	return r.Code == "LimitExceeded" || r.cause == minValuesLost && len(in.Catalog.NodePools[r.NodePool].Limits) > 0
}

// placed counts the pods of at least the priority that have a node.
func placed(in Input, p *Plan, least int32) int {
	n := 0
	for ci := range in.Classes {
		if priority(in.Classes[ci].Pod) >= least {
			n += len(in.Classes[ci].Pods)
		}
	}
	for _, u := range p.Unplaced {
		if priority(in.Classes[u.Class].Pod) >= least {
			n -= len(u.Pods)
		}
	}
	return n
}

// addPriorities adds to reasons that are about limits which pods came first.
func addPriorities(in Input, p *Plan) {
	for ui := range p.Unplaced {
		u := &p.Unplaced[ui]
		own := priority(in.Classes[u.Class].Pod)
		for ri := range u.Reasons {
			r := &u.Reasons[ri]
			if r.Code != "LimitExceeded" {
				continue
			}
			n, highest := 0, own
			for _, c := range p.Claims {
				for _, x := range c.Members {
					if prio := priority(in.Classes[x.Class].Pod); c.NodePool == r.NodePool && prio > own {
						n, highest = n+len(x.Pods), max(highest, prio)
					}
				}
			}
			if n > 0 {
				r.Code = "PriorityTooLow"
				r.Message += fmt.Sprintf("; %s of higher priority (up to %d, this one has %d) come first", catalog.CountText(n, "pod"), highest, own)
			}
		}
	}
}

package aws

import (
	"cmp"
	"slices"
)

// candidate is a pool from which a fleet may launch: an override of one of its launch templates.
type candidate struct {
	// order is the position in the request.
	order int
	// price is per hour, priority is the request's, and depth is the pool's spare capacity, from 0 to 1.
	price, priority, depth float64
	// code and message are why nothing can be launched from the pool; empty if something can.
	code, message string
	// denied means that a service control policy denies the instance type.
	denied bool
	// room is the number of free addresses in its subnet.
	room int
	// subnet is the id of the subnet. Candidates may share it.
	subnet string
	// vcpus are those of one instance, which count against the quota.
	vcpus int
}

// pick is a number of instances to launch from one candidate.
type pick struct{ candidate, count int }

// The error codes that only the allocation finds.
const (
	codeNoAddresses = "InsufficientFreeAddressesInSubnet"
	codeQuota       = "VcpuLimitExceeded"
	codeSpotQuota   = "MaxSpotInstanceCountExceeded"
	quotaReached    = "You have requested more vCPU capacity than your current vCPU limit allows for the instance bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
)

// The allocation strategies (EC2 user guide, "Use allocation strategies to determine how EC2 Fleet or Spot Fleet fulfills
// Spot and On-Demand capacity").
const (
	lowestPrice            = "lowest-price"
	lowestPriceOld         = "lowestPrice"
	prioritized            = "prioritized"
	diversified            = "diversified"
	capacityOptimized      = "capacity-optimized"
	capacityOptimizedPrio  = "capacity-optimized-prioritized"
	priceCapacityOptimized = "price-capacity-optimized"
)

// fit returns how many of the wanted instances the candidate can provide. Where it can provide fewer, it sets the
// candidate's code.
func (c *candidate) fit(wanted, room, quota int) int {
	if c.code != "" {
		return 0
	}
	n := min(wanted, room, quota/max(1, c.vcpus))
	switch n {
	case wanted:
	case room:
		c.code, c.message = codeNoAddresses, errNoAddresses(c.subnet).Message
	default:
		c.code, c.message = codeQuota, quotaReached
	}
	return n
}

// rank sorts candidates, the best first.
func rank(candidates []candidate, strategy string) []int {
	order := make([]int, len(candidates))
	for i := range order {
		order[i] = i
	}
	less := func(a, b candidate) int { return cmp.Compare(a.price, b.price) }
	switch strategy {
	case prioritized:
		less = func(a, b candidate) int { return cmp.Compare(a.priority, b.priority) }
	case capacityOptimized:
		less = func(a, b candidate) int { return cmp.Compare(b.depth, a.depth) }
	case capacityOptimizedPrio:
		// Priorities are best effort: they decide among pools of about equal depth.
		less = func(a, b candidate) int {
			return cmp.Or(cmp.Compare(int(4*b.depth), int(4*a.depth)), cmp.Compare(a.priority, b.priority))
		}
	case priceCapacityOptimized:
		// A pool with little spare capacity is used only if it is cheaper, by up to a fifth.
		worth := func(c candidate) float64 { return c.price * (1.2 - 0.2*c.depth) }
		less = func(a, b candidate) int { return cmp.Compare(worth(a), worth(b)) }
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(less(candidates[i], candidates[j]), cmp.Compare(candidates[i].order, candidates[j].order))
	})
	return order
}

// allocate decides from which candidates the target instances are launched. failed lists the candidates that provided none
// or too few, with their codes. Candidates that were not needed are in neither result. Only the candidates' codes are
// changed. quota is the number of vCPUs left.
func allocate(candidates []candidate, target, quota int, strategy string) (picks []pick, failed []int) {
	room := map[string]int{}
	for _, c := range candidates {
		room[c.subnet] = c.room
	}
	ranked := rank(candidates, strategy)
	share := target
	if strategy == diversified {
		share = max(1, (target+len(ranked)-1)/max(1, len(ranked)))
	}
	for _, i := range ranked {
		if target == 0 {
			break
		}
		c := &candidates[i]
		n := c.fit(min(target, share), room[c.subnet], quota)
		if c.code != "" {
			failed = append(failed, i)
		}
		if n == 0 {
			continue
		}
		picks = append(picks, pick{i, n})
		quota -= n * c.vcpus
		room[c.subnet] -= n
		target -= n
	}
	if target > 0 && strategy == diversified {
		// The rest after equal shares is launched from any candidate with free addresses.
		for p := range picks {
			c := candidates[picks[p].candidate]
			n := min(target, room[c.subnet], quota/max(1, c.vcpus))
			quota -= n * c.vcpus
			picks[p].count += n
			room[c.subnet] -= n
			target -= n
		}
	}
	return picks, failed
}

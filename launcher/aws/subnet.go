package aws

import (
	"maps"
	"slices"
	"sync"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// subnet holds the fields of an EC2 subnet that launches need.
type subnet struct {
	id, zone, zoneID string
	free             int64
	// public means that instances get a public IPv4 address unless the class declines it.
	public bool
	// ipv6 means that it has an IPv6 range.
	ipv6 bool
}

// withIPv6 returns the subnets that have an IPv6 range.
func withIPv6(subnets []subnet) []subnet {
	return slices.DeleteFunc(slices.Clone(subnets), func(s subnet) bool { return !s.ipv6 })
}

// takenAddresses counts the addresses of subnets that EC2's last answer does not have. It orders subnets, and refuses none.
type takenAddresses struct {
	mu sync.Mutex
	// launched are those of launches since EC2 last returned the number of free ones, expected those of calls without an answer yet.
	launched, expected map[string]int64
}

// addresses are what a call needs of the subnets.
type addresses struct {
	// nodes is the number of instances, each the number of addresses that each of them is expected to take with its pods.
	nodes int
	each  int64
	// subnets are, by zone, those that the call names.
	subnets map[string]subnet
}

// addressesOf returns the number of addresses that each node of a call takes at least. The VPC CNI takes one for each pod, as Karpenter counts; in an IPv6
// cluster the pods have IPv6 addresses. A call does not decide which option EC2 takes.
func addressesOf(options []cloud.Option, ipv6 bool) int64 {
	least := options[0].MaxPods
	for _, o := range options {
		least = min(least, o.MaxPods)
	}
	if ipv6 {
		least = 1
	}
	return max(least, 1)
}

// pick chooses, for each zone of the options, the subnet with the most free addresses for a call of that many nodes, and charges each of them for all
// nodes until release: EC2 decides on the zone. The call is for fewer nodes where each chosen subnet has too few addresses for the nodes alone, and a zone has
// another one.
func (t *takenAddresses) pick(usable []subnet, options []cloud.Option, nodes int, each int64) addresses {
	out := addresses{nodes: nodes, each: each, subnets: map[string]subnet{}}
	asked := map[string]bool{}
	for _, o := range options {
		asked[o.Zone] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var most, another int64
	for _, s := range usable {
		if !asked[s.zone] {
			continue
		}
		s.free -= t.launched[s.id] + t.expected[s.id]
		most = max(most, s.free)
		best, ok := out.subnets[s.zone]
		switch {
		case !ok:
			out.subnets[s.zone] = s
		case s.free > best.free:
			out.subnets[s.zone], another = s, max(another, best.free)
		default:
			another = max(another, s.free)
		}
	}
	if another > 0 {
		out.nodes = int(min(int64(nodes), most))
	}
	t.expect(out, 1)
	return out
}

// charge charges the subnets of a call that is repeated.
func (t *takenAddresses) charge(a addresses) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expect(a, 1)
}

// release ends the charge of a call.
func (t *takenAddresses) release(a addresses) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expect(a, -1)
}

func (t *takenAddresses) expect(a addresses, sign int64) {
	if t.expected == nil {
		t.expected = map[string]int64{}
	}
	for s := range maps.Values(a.subnets) {
		if t.expected[s.id] += sign * int64(a.nodes) * a.each; t.expected[s.id] == 0 {
			delete(t.expected, s.id)
		}
	}
}

// add counts the addresses of instances that were launched.
func (t *takenAddresses) add(subnet string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.launched == nil {
		t.launched = map[string]int64{}
	}
	t.launched[subnet] += n
}

// reset forgets the launches into subnets whose free addresses EC2 has just returned.
func (t *takenAddresses) reset(subnets []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range subnets {
		delete(t.launched, s)
	}
}

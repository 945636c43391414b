package day

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/cover"
)

// Policy is what gives nodes up.
type Policy string

// The policies.
const (
	// Off gives up empty nodes alone.
	Off Policy = "off"
	// Greedy gives up the smallest node whose pods fit elsewhere with one new node at most, which has to be cheaper; one after the
	// other, whatever it disturbs.
	Greedy Policy = "greedy"
	// On is plugin/consolidate with its defaults.
	On Policy = "on"
	// Alone is On for which no pods are expected.
	Alone Policy = "alone"
	// Keen is Alone for which an eviction costs as much however many there were: it saves what it can, and evicts more pods for it.
	Keen Policy = "keen"
	// Ordered is On in a cluster in which a Deployment that shrinks ends the pods on the emptiest nodes first, by controller.kubernetes.io/pod-deletion-cost.
	// The order is that of the moment; slipway sets such costs once, when it binds a pod.
	Ordered Policy = "ordered"
	// Alike is On in which pods have no deletion cost: a Deployment that shrinks ends pods on all nodes alike.
	Alike Policy = "alike"
	// Packed is On in a cluster whose scheduler prefers the fullest nodes, by kube-scheduler's scoring strategy MostAllocated. By default, as in all other
	// policies, it prefers the emptiest ones.
	Packed Policy = "packed"
)

// expects reports whether pods are expected: so it is with On and its variants but Alone.
func (p Policy) expects() bool { return p == On || p == Ordered || p == Alike || p == Packed }

// strained reports whether evictions cost the policy more the more there were.
func (p Policy) strained() bool { return p.expects() || p == Alone }

const (
	// decide is how often a policy decides, in minutes: as often as a greedy one can that waits for its last node to be gone.
	decide = leaves
	// share of a NodePool's nodes that may leave at a time: the default of disruption budgets.
	share = 10
)

// podsOn are the pods by the nodes that they have a place on.
func podsOn(c *cluster) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		out[c.pods[name].node] = append(out[c.pods[name].node], c.pods[name].object)
	}
	return out
}

// calm are the evictions by NodePool.
type calm map[string]disruption.Evictions

// count counts those of nodes that are given up.
func (l calm) count(c *cluster, gone []string) {
	on := podsOn(c)
	for _, name := range gone {
		pool := c.nodes[name].offer.NodePool
		l[pool] = l[pool].With(len(on[name]), c.clock())
	}
}

// costs are what the eviction of a pod costs a policy now, by NodePool.
func (l calm) costs(c *cluster, p Policy) map[string]float64 {
	pods, out := map[string]int{}, map[string]float64{}
	for _, q := range c.pods {
		if n := c.nodes[q.node]; n != nil {
			pods[n.offer.NodePool]++
		}
	}
	for pool, n := range pods {
		if out[pool] = disruption.EvictionCost; p.strained() {
			out[pool] *= l[pool].Strain(n, c.clock())
		}
	}
	return out
}

// fleet are the nodes as a policy looks at them.
func (c *cluster) fleet(p Policy) []consolidate.Node {
	on, held, costs := podsOn(c), c.held(), c.calm.costs(c, p)
	var out []consolidate.Node
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		if n.gone != 0 {
			continue
		}
		one := consolidate.Node{
			Name: name, Offer: n.offer, Policy: consolidate.WhenEmptyOrUnderutilized, Used: consolidate.Used(n.object, append(slices.Clone(on[name]), expectedOn(c, name)...)),
		}
		for _, pod := range expectedOn(c, name) {
			one.Pods = append(one.Pods, consolidate.Pod{Name: pod.Namespace + "/" + pod.Name})
		}
		one.Price = c.price(n.offer)
		one.EvictionCost = costs[n.offer.NodePool]
		if n.ready > c.now {
			one.Blocked = "it boots"
		}
		for _, pod := range on[name] {
			one.Pods = append(one.Pods, consolidate.Pod{
				Name: pod.Namespace + "/" + pod.Name, Weight: consolidate.Weight(pod),
			})
			if pod.Annotations[karpv1.DoNotDisruptAnnotationKey] != "" {
				one.Blocked = "a pod may not be disrupted"
			}
			if held[pod.Labels["app"]] {
				one.Blocked = "a PodDisruptionBudget lets no pod go"
			}
		}
		out = append(out, one)
	}
	c.cover(out)
	return out
}

// cover lowers the prices of nodes that commitments pay for.
func (c *cluster) cover(fleet []consolidate.Node) {
	if len(c.market.Commitments) == 0 {
		return
	}
	state := catalog.State{Commitments: c.market.Commitments, InstanceTypes: c.types, NodePools: c.known}
	labels := map[string]map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		labels[name] = c.nodes[name].object.Labels
	}
	cover.Lower(state, fleet, labels)
}

// held are the services whose PodDisruptionBudgets let no pod go now: as many as may be are on nodes that boot.
func (c *cluster) held() map[string]bool {
	missing, out := map[string]int{}, map[string]bool{}
	for _, p := range c.pods {
		if p.node == "" || c.nodes[p.node].ready > c.now {
			missing[p.object.Labels["app"]]++
		}
	}
	for app, n := range c.replicas() {
		if _, ok := c.budgets[app]; ok {
			out[app] = c.away(app, n) <= missing[app]
		}
	}
	return out
}

// allowed is what budgets of a tenth leave of each NodePool.
func (c *cluster) allowed() map[string]consolidate.Allowance {
	all, leaving := map[string]int{}, map[string]int{}
	for _, n := range c.nodes {
		all[n.offer.NodePool]++
		if n.gone != 0 {
			leaving[n.offer.NodePool]++
		}
	}
	out := map[string]consolidate.Allowance{}
	for pool, n := range all {
		left := max((n*share+99)/100-leaving[pool], 0)
		out[pool] = consolidate.Allowance{Empty: left, Underutilized: left}
	}
	return out
}

// choose says which nodes a policy gives up now, and notes which are no room for their pods.
func (c *cluster) choose(ctx context.Context, p Policy) ([]string, error) {
	if err := keepExpected(ctx, c); err != nil {
		return nil, err
	}
	defer func() { c.room = nil }()
	fleet, allowed := c.fleet(p), c.allowed()
	if p.strained() || p == Keen {
		o := consolidate.DefaultOptions()
		o.Allowed = allowed
		decision, err := consolidate.Decide(ctx, fleet, o, c.ask)
		var out []string
		for _, m := range decision.Moves {
			if len(m.Targets) > 0 {
				c.avoid = m.Avoid // The same of all moves of a decision.
			}
			for _, n := range m.Nodes {
				out = append(out, n.Name)
			}
		}
		return out, err
	}
	var out []string
	for i := range fleet {
		n := &fleet[i]
		if left := allowed[n.NodePool]; len(n.Pods) == 0 && n.Blocked == "" && left.Empty > 0 {
			allowed[n.NodePool] = consolidate.Allowance{Empty: left.Empty - 1, Underutilized: left.Underutilized - 1}
			out = append(out, n.Name)
		}
	}
	if p == Off || len(out) > 0 {
		return out, nil
	}
	return c.greedy(ctx, fleet, allowed)
}

// greedy is the plain rule: no more questions than On may ask.
func (c *cluster) greedy(ctx context.Context, fleet []consolidate.Node, allowed map[string]consolidate.Allowance) ([]string, error) {
	for _, n := range c.nodes {
		if n.gone != 0 {
			return nil, nil // One at a time.
		}
	}
	slices.SortFunc(fleet, func(a, b consolidate.Node) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Name, b.Name))
	})
	questions := consolidate.DefaultOptions().Questions
	for i := range fleet {
		n := &fleet[i]
		if n.Blocked != "" || allowed[n.NodePool].Underutilized <= 0 || questions == 0 {
			continue
		}
		questions--
		answer, err := c.ask(ctx, []string{n.Name}, nil)
		if err != nil {
			return nil, err
		}
		cost, spot := 0.0, false
		for _, r := range answer.Replacements {
			cost += r.Price
			spot = spot || r.CapacityType == karpv1.CapacityTypeSpot
		}
		toSpot := spot && n.CapacityType == karpv1.CapacityTypeSpot
		if len(answer.Unplaced) == 0 && len(answer.Replacements) <= 1 && cost < n.Price && !toSpot {
			return []string{n.Name}, nil
		}
	}
	return nil, nil
}

// interruptions are the spot nodes that are taken in this minute: a matter of the node's name and the minute alone.
func (c *cluster) interruptions(rate float64, random func(name string, minute int) float64) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		if n.gone == 0 && n.ready <= c.now && n.offer.CapacityType == karpv1.CapacityTypeSpot && random(name, c.now) < rate {
			out = append(out, name)
		}
	}
	return out
}

// perHour is a rate per minute for one per so many hours.
func perHour(d time.Duration) float64 { return float64(time.Minute) / float64(d) }

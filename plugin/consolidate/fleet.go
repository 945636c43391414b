package consolidate

import (
	"context"
	"fmt"
	"time"
)

// Policy says which nodes of a NodePool may be given up: its spec.disruption.consolidationPolicy.
type Policy string

// The policies of Karpenter's NodePool v1.
const (
	WhenEmpty                Policy = "WhenEmpty"
	WhenEmptyOrUnderutilized Policy = "WhenEmptyOrUnderutilized"
	Balanced                 Policy = "Balanced"
)

// Offer is what a node is bought as.
type Offer struct {
	// NodePool that it belongs to.
	NodePool string
	// InstanceType, Zone and CapacityType of the instance.
	InstanceType, Zone, CapacityType string
	// Price in USD per hour.
	Price float64
}

// Unpriced says that the price of the offer is not known; empty where it is.
func (o Offer) Unpriced() string {
	if o.Price > 0 {
		return ""
	}
	return fmt.Sprintf("the price of %s, %s in %s is not known", o.InstanceType, o.CapacityType, o.Zone)
}

// equal says whether buying b for a changes nothing.
func (o Offer) equal(b Offer) bool {
	return o.InstanceType == b.InstanceType && o.CapacityType == b.CapacityType && o.NodePool == b.NodePool
}

// Node is one that runs and belongs to a NodePool.
type Node struct {
	Offer
	// Name of the Node.
	Name string
	// Policy of its NodePool.
	Policy Policy
	// Blocked is why it may not be touched now: do-not-disrupt, a PodDisruptionBudget, too young; empty for nothing.
	Blocked string
	// Disrupted is true where the node counts as disrupted in its NodePool's budgets already: it takes no place of what is left.
	Disrupted bool
	// Pods that have to move when it goes; those of DaemonSets and static ones do not.
	Pods []Pod
	// Used is the largest share of cpu or memory that pods ask for, 0 to 1.
	Used float64
}

// empty says whether nobody has to move.
func (n *Node) empty() bool { return len(n.Pods) == 0 }

// evictions is what moving the node's pods weighs.
func (n *Node) evictions() float64 {
	sum := 0.0
	for _, p := range n.Pods {
		sum += p.Weight
	}
	return sum
}

// disturbs is the same where pods that have hardly started count for more.
func (n *Node) disturbs() float64 {
	sum := 0.0
	for _, p := range n.Pods {
		sum += p.Weight * max(p.Fresh, 1)
	}
	return sum
}

// Pod is one that has to move.
type Pod struct {
	// Name is namespace/name.
	Name string
	// Weight of its eviction: 1 for an ordinary pod, more for one that says so by priority or deletion cost.
	Weight float64
	// Fresh is how many times its weight counts in what a move costs, as Fresh says; 0 counts as 1.
	Fresh float64
}

// Replacement is a node to launch.
type Replacement struct {
	Offer
	// Name of the NodeClaim.
	Name string
	// Pods that move onto it, as namespace/name.
	Pods []string
}

// Answer is where the pods of nodes that go would run.
type Answer struct {
	// CutShort says that planning ran out of time: some pods have no place for that alone.
	CutShort bool
	// Replacements to launch.
	Replacements []Replacement
	// Existing nodes by the pods that find room there, as namespace/name.
	Existing map[string]string
	// Unplaced pods with the reason.
	Unplaced map[string]string
}

// Ask is the planner's answer for the pods of the nodes that are gone. Those to avoid are no room for them: they go next.
type Ask func(ctx context.Context, gone, avoid []string) (Answer, error)

// Options bound what is worth a move.
type Options struct {
	// Payback is how soon a move has to have earned what it costs. Default 2 h.
	Payback time.Duration
	// EvictionCost is what the eviction of an ordinary pod is worth, in USD. Default 0.005.
	EvictionCost float64
	// Overlap is for how long the replacement and what it replaces are both paid: it boots, the other drains. Default 5 min.
	Overlap time.Duration
	// MinSaving is the least that a move has to save, in USD per hour. Default 0.005.
	MinSaving float64
	// SpotToSpot allows to replace spot nodes by other spot nodes (Karpenter's gate SpotToSpotConsolidation).
	SpotToSpot bool
	// Questions is how often the planner may be asked. Default 24.
	Questions int
	// Allowed is how many nodes of each NodePool may go at once: what its budgets leave. A NodePool without an entry has no
	// limit.
	Allowed map[string]Allowance
}

// Allowance is how many nodes of a NodePool may go now, by the reasons that Karpenter's budgets know. Neither number
// includes the other: as many nodes go as the larger one says at most.
type Allowance struct {
	// Empty nodes that may go.
	Empty int
	// Underutilized nodes that may go.
	Underutilized int
}

// DefaultPodAge is how long pods have to have run to be moved almost as readily as old ones, where nobody says otherwise.
const DefaultPodAge = 24 * time.Hour

// DefaultOptions are those of the fields' descriptions.
func DefaultOptions() Options {
	return Options{Payback: 2 * time.Hour, EvictionCost: 0.005, Overlap: 5 * time.Minute, MinSaving: 0.005, Questions: 24}
}

// Move is a set of nodes that go together, with what is launched for their pods.
type Move struct {
	// Nodes that go.
	Nodes []Node
	// Replacements that have to be Ready before; none where there is room elsewhere.
	Replacements []Replacement
	// Targets are the nodes or replacements by the pods that move there, as namespace/name.
	Targets map[string]string
	// Saving in USD per hour.
	Saving float64
	// Cost of the move in USD: evictions, and what is paid twice.
	Cost float64
	// Avoid are the nodes that are no room for the pods: they go next.
	Avoid []string
	// Scores of the NodePools with policy Balanced that lose nodes, by name.
	Scores []Score
}

// Payback is when the move has earned its cost.
func (m *Move) Payback() time.Duration {
	if m.Cost <= 0 {
		return 0
	}
	return time.Duration(m.Cost / m.Saving * float64(time.Hour))
}

// Most is what the replacements may cost, in USD per hour, for the move to be worth it still: what Balanced weighs up has to be
// as it was planned.
func (m *Move) Most(o Options) float64 {
	now, least := 0.0, max(o.MinSaving, m.Cost/o.Payback.Hours())
	for i := range m.Nodes {
		now += m.Nodes[i].Price
		if m.Nodes[i].Policy == Balanced {
			least = m.Saving
		}
	}
	return now - min(least, m.Saving)
}

// Kept is a node that stays.
type Kept struct {
	// Node is its name.
	Node string
	// Reason for a human.
	Reason string
}

// Decision is what to do.
type Decision struct {
	// Moves, each of which can be made without the others; empty nodes first, then the largest saving first. All together
	// keep to Options.Allowed.
	Moves []Move
	// Kept are the nodes that stay, by name.
	Kept []Kept
	// Questions is how often the planner was asked.
	Questions int
	// Rejected are the scores that were too low, of moves that would have paid.
	Rejected []Score
	// TimedOut says that time ran out: what is there was decided until then.
	TimedOut bool
}

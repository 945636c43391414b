package consolidate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
)

// Policy is which nodes of a NodePool may be removed: its spec.disruption.consolidationPolicy.
type Policy string

// The consolidation policies of Karpenter's NodePool v1.
const (
	WhenEmpty                Policy = "WhenEmpty"
	WhenEmptyOrUnderutilized Policy = "WhenEmptyOrUnderutilized"
	Balanced                 Policy = "Balanced"
)

// Offer is the offering that a node was bought as.
type Offer struct {
	// NodePool that it belongs to.
	NodePool string
	// InstanceType, Zone and CapacityType of the instance.
	InstanceType, Zone, CapacityType string
	// Price in USD per hour.
	Price float64
}

// Unpriced returns the reason if the price of the offer is not known; empty if it is.
func (o Offer) Unpriced() string {
	if o.Price > 0 {
		return ""
	}
	return fmt.Sprintf("the price of %s, %s in %s is not known", o.InstanceType, o.CapacityType, o.Zone)
}

// equal reports whether replacing a by b changes nothing.
func (o Offer) equal(b Offer) bool {
	return o.InstanceType == b.InstanceType && o.CapacityType == b.CapacityType && o.NodePool == b.NodePool
}

// Node is a running node of a NodePool.
type Node struct {
	Offer
	// Name of the Node.
	Name string
	// Policy of its NodePool.
	Policy Policy
	// Blocked is why the node may not be disrupted now: do-not-disrupt, a PodDisruptionBudget, too young. Empty if it may.
	Blocked string
	// Soon means that Blocked ends within seconds: the node does not go in this decision, but perhaps in the next one.
	Soon bool
	// Disrupted means that the NodePool's budgets count the node as disrupted already: its removal takes nothing of what they
	// leave.
	Disrupted bool
	// Pods are those that have to move if the node is removed, without static pods and pods of DaemonSets.
	Pods []Pod
	// EvictionCost is what the eviction of an ordinary pod costs now, in USD; 0 stands for Options.EvictionCost.
	EvictionCost float64
	// Used is the larger of the shares of cpu and memory that pods request, 0 to 1.
	Used float64
	// CPU is what all its pods request, in thousandths.
	CPU int64
	// Charges are those of its instance type, as its NodePool assumes the use of CPU.
	Charges catalog.Charges
	// LossPerPod is what interruptions are expected to cost for each of its pods, in USD per hour; part of Price.
	LossPerPod float64
	// Overlaid means that a NodeOverlay decides its price: commitments do not lower it.
	Overlaid bool
}

// empty reports whether no pod has to move.
func (n *Node) empty() bool { return len(n.Pods) == 0 }

// evictions returns the weight of the evictions of the node's pods.
func (n *Node) evictions() float64 {
	sum := 0.0
	for _, p := range n.Pods {
		sum += p.Weight
	}
	return sum
}

// disturbs returns the same, with a higher weight for pods that started a short time ago.
func (n *Node) disturbs() float64 {
	sum := 0.0
	for _, p := range n.Pods {
		sum += p.Weight * max(p.Fresh, 1)
	}
	return sum
}

// cost returns what the evictions of the node's pods cost, in USD. On-demand nodes that spot nodes replace cost what they do after a calm time:
// Options.Lasts keeps their pods from moving to and fro.
func (n *Node) cost(o Options, backToSpot bool) float64 {
	each := cmp.Or(n.EvictionCost, o.EvictionCost)
	if backToSpot && !catalog.CapacityTypeOf(n.CapacityType).Interruptible {
		each = min(each, o.EvictionCost)
	}
	return n.disturbs() * each
}

// Pod is a pod that has to move.
type Pod struct {
	// Name is namespace/name.
	Name string
	// Weight is the weight of its eviction: 1 for an ordinary pod, more for a high priority or deletion cost.
	Weight float64
	// CPU is what it requests, in thousandths.
	CPU int64
	// Fresh multiplies the weight in the cost of a move, as the function Fresh computes it; 0 counts as 1.
	Fresh float64
}

// Replacement is a node to launch.
type Replacement struct {
	Offer
	// Name of the NodeClaim.
	Name string
	// Pods that move onto it, as namespace/name.
	Pods []string
	// Cost is its price by part.
	Cost catalog.Cost
}

// Answer is where the pods of removed nodes would run.
type Answer struct {
	// CutShort means that planning ran out of time. Some pods have no place only because of that.
	CutShort bool
	// Replacements to launch.
	Replacements []Replacement
	// Existing are the existing nodes with room for pods, by the pods' namespace/name.
	Existing map[string]string
	// Unplaced are the reasons of pods without a place, by the pods' namespace/name.
	Unplaced map[string]string
	// Refused returns why what a move launches would be refused at the price that it may cost; empty if it would not be. A nil function refuses nothing.
	Refused func(m *Move, o Options) string
}

// Ask returns the planner's answer for the pods of the nodes in gone. No pod is placed on the nodes in avoid: they are removed
// next.
type Ask func(ctx context.Context, gone, avoid []string) (Answer, error)

// Options bound which moves are worth it.
type Options struct {
	// Payback is the time in which a move has to earn what it costs. Default 2 h.
	Payback time.Duration
	// Troubled are the spot offerings whose nodes EC2 took back, or refused, a while ago: until when no on-demand node is replaced by one of theirs.
	Troubled map[SpotOffering]time.Time
	// Lasts is how long spot nodes that replace on-demand nodes are expected to last, as the function Lasts computes it. Such a move has to earn what it
	// costs within that time. An offering without an entry lasts longer than matters.
	Lasts map[SpotOffering]time.Duration
	// EvictionCost is the cost of the eviction of an ordinary pod, in USD. Default 0.01.
	EvictionCost float64
	// Overlap is how long both a replacement and the node it replaces are paid: one boots, the other drains. Default 5 min.
	Overlap time.Duration
	// MinSaving is the least that a move has to save, in USD per hour. Default 0.005.
	MinSaving float64
	// SpotToSpot lets spot nodes replace spot nodes (Karpenter's gate SpotToSpotConsolidation).
	SpotToSpot bool
	// Questions is how often the planner may be asked. Default 24.
	Questions int
	// Allowed is how many nodes of each NodePool may be removed at once: what its budgets leave. A NodePool without an entry has
	// no limit.
	Allowed map[string]Allowance
}

// Allowance is how many nodes of a NodePool may be removed now, by the reasons of Karpenter's budgets. Neither number includes
// the other: together, at most as many nodes are removed as the larger number.
type Allowance struct {
	// Empty is the number of empty nodes that may be removed.
	Empty int
	// Underutilized is the number of underutilized nodes that may be removed.
	Underutilized int
}

// DefaultOptions returns the defaults that the fields name.
func DefaultOptions() Options {
	return Options{Payback: 2 * time.Hour, EvictionCost: disruption.EvictionCost, Overlap: 5 * time.Minute, MinSaving: 0.005, Questions: 24}
}

// Move is a set of nodes that are removed together, with what is launched for their pods.
type Move struct {
	// Nodes are the nodes to remove.
	Nodes []Node
	// Replacements are the nodes that have to be Ready before; none if existing nodes have room.
	Replacements []Replacement
	// Targets are the nodes or replacements by the pods that move there, as namespace/name.
	Targets map[string]string
	// Saving is in USD per hour.
	Saving float64
	// Surplus is what existing nodes cost more with the pods that move there, in USD per hour: burstable instances beyond their baseline.
	Surplus float64
	// Cost of the move in USD: evictions, those that interruptions are expected to add, and nodes that are paid twice for a while.
	Cost float64
	// Lasts is how long its spot nodes are expected to last, if they replace on-demand nodes; zero for longer than matters.
	Lasts time.Duration
	// Avoid are the nodes on which no pod may be placed: they are removed next.
	Avoid []string
	// Scores of the NodePools with policy Balanced that lose nodes, by name.
	Scores []Score
}

// longestPayback is the longest time that Payback returns: 100 years. One that saves next to nothing takes longer than a Duration holds.
const longestPayback = 100 * 365 * 24 * time.Hour

// Payback returns how long it takes until the move has earned its cost, 100 years at most.
func (m *Move) Payback() time.Duration {
	if m.Cost <= 0 {
		return 0
	}
	if took := m.Cost / m.Saving * float64(time.Hour); took < float64(longestPayback) {
		return time.Duration(took)
	}
	return longestPayback
}

// interrupted returns for which share of its pods EC2 is expected to interrupt the spot nodes that replace on-demand nodes, within the longest time that
// counts. Each of them is evicted once more.
func (m *Move) interrupted() float64 {
	if m.Lasts <= 0 {
		return 0
	}
	return 1 - min(m.Lasts.Hours()/interruption.Longest.Hours(), 1)
}

// within returns the time in which the move has to earn what it costs.
func (m *Move) within(o Options) time.Duration {
	if m.Lasts > 0 {
		return min(m.Lasts, o.Payback)
	}
	return o.Payback
}

// Most returns the highest price of the replacements at which the move is still worth it, in USD per hour. With policy Balanced
// it is the planned price, on which the score is based.
func (m *Move) Most(o Options) float64 {
	now, least := -m.Surplus, max(o.MinSaving, m.Cost/m.within(o).Hours())
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
	// Reason is a sentence for users.
	Reason string
	// Unlooked means that time ran out before anything was found out about the node.
	Unlooked bool
}

// Decision lists what to do.
type Decision struct {
	// Moves can each be made without the others. Those of empty nodes come first, then the largest saving first. All together
	// keep to Options.Allowed.
	Moves []Move
	// Kept are the nodes that stay, by name.
	Kept []Kept
	// Questions is how often the planner was asked.
	Questions int
	// Rejected are the scores that were too low, of moves that would have paid.
	Rejected []Score
	// TimedOut means that time ran out: the decision has what was decided until then.
	TimedOut bool
}

// SpotOffering is an instance type in a zone, as spot.
type SpotOffering struct{ InstanceType, Zone string }

// Lasts returns how long nodes of the spot offerings are expected to last, of those for which that matters.
func Lasts(cat catalog.State) map[SpotOffering]time.Duration {
	out := map[SpotOffering]time.Duration{}
	for _, types := range cat.InstanceTypes {
		for i := range types {
			for _, o := range types[i].Offerings {
				of := SpotOffering{types[i].Name, o.Zone}
				if least := out[of]; o.Lasts > 0 && (least == 0 || o.Lasts < least) && catalog.CapacityTypeOf(o.CapacityType).Interruptible {
					out[of] = o.Lasts
				}
			}
		}
	}
	return out
}

// Troubled returns the spot offerings that have not settled, with the time when they will have if nothing more happens. An offering that EC2
// refuses now, or that is on probation, has not settled from now on. A market that comes and goes would otherwise move the same pods again and again.
func Troubled(cat catalog.State, now time.Time) map[SpotOffering]time.Time {
	out := map[SpotOffering]time.Time{}
	note := func(of SpotOffering, until time.Time) {
		if until.After(now) && until.After(out[of]) {
			out[of] = until
		}
	}
	for _, types := range cat.InstanceTypes {
		for i := range types {
			for _, o := range types[i].Offerings {
				if !catalog.CapacityTypeOf(o.CapacityType).Interruptible {
					continue
				}
				of := SpotOffering{types[i].Name, o.Zone}
				note(of, o.SettlesAt)
				if o.Probation || o.UnavailableUntil.After(now) {
					note(of, now.Add(interruption.SettleAfter))
				}
			}
		}
	}
	return out
}

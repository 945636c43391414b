package static

import (
	"cmp"
	"math"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// The reasons for which NodeClaims terminate, in metrics and conditions.
const (
	// ScaledDown means that the NodePool has more nodes than spec.replicas.
	ScaledDown = "scaled_down"
	// Drifted means that a node that differs from what its NodePool and EC2NodeClass ask for has been replaced.
	Drifted = "drifted"
)

// NoLimit is the Limit of a NodePool without a limit of nodes.
const NoLimit = math.MaxInt64

// Facts are what is known of a NodePool.
type Facts struct {
	// Replicas is spec.replicas, or what an open window has in its place.
	Replicas int64
	// Limit is the most NodeClaims that the NodePool may have, also while some terminate; NoLimit for none.
	Limit int64
	// Drifts is how many drifted nodes the disruption budgets allow to terminate now.
	Drifts int64
	// Scaled is true where the NodePool has had more nodes than Replicas ever since that number was set, so that the surplus was not added for drifted ones.
	Scaled bool
	// Nodes are those of all its NodeClaims.
	Nodes []Node
}

// Node is a NodeClaim and what counts of its node.
type Node struct {
	// Claim is its NodeClaim.
	Claim *karpv1.NodeClaim
	// Deleting is true where the NodeClaim is being deleted, or is about to be.
	Deleting bool
	// Pods is the number of pods that occupy the node.
	Pods int
	// Protected is true where do-not-disrupt or a PodDisruptionBudget protects the node or its pods.
	Protected bool
	// Blocked is true where a drifted node may not be replaced.
	Blocked bool
}

func (n Node) drifted() bool    { return conditions.ClaimIs(n.Claim, karpv1.ConditionTypeDrifted) }
func (n Node) registered() bool { return conditions.ClaimIs(n.Claim, karpv1.ConditionTypeRegistered) }

func (n Node) initialized() bool { return conditions.ClaimIs(n.Claim, karpv1.ConditionTypeInitialized) }

// Decision is what to do about a NodePool.
type Decision struct {
	// Create is how many NodeClaims to create.
	Create int64
	// Remove are NodeClaims that are more than spec.replicas: they terminate whatever the budgets say, as in Karpenter.
	Remove []*karpv1.NodeClaim
	// Replaced are drifted NodeClaims in whose place others are initialized. They terminate within the budgets.
	Replaced []*karpv1.NodeClaim
	// Full is true where the limit of nodes kept NodeClaims from being created.
	Full bool
}

// Decide returns what brings the NodePool to its number of nodes, without more NodeClaims than its limit at any time.
func Decide(f Facts) Decision {
	var active, drifted []Node
	differ := int64(0)
	for _, n := range f.Nodes {
		if n.Deleting {
			continue
		}
		active = append(active, n)
		if n.drifted() {
			differ++
			if !n.Blocked {
				drifted = append(drifted, n)
			}
		}
	}
	room := max(f.Limit-int64(len(f.Nodes)), 0)
	// 1. The nodes that replace drifted ones come before those go. Those that are there already are part of the surplus.
	surplus := int64(len(active)) - f.Replicas
	replaceable := min(f.Drifts, int64(len(drifted)))
	surge := min(replaceable, max(surplus, 0)+room)
	if !f.Scaled {
		// A budget or a pod may keep the drifted ones for a moment. Without the nodes that boot in their place, each try would begin with a launch.
		surge = max(surge, min(surplus, differ))
	}
	missing := f.Replicas + surge - int64(len(active))
	if missing > 0 {
		return Decision{Create: min(missing, room), Full: room < missing}
	}
	// 2. What is more than that terminates.
	var out Decision
	slices.SortStableFunc(active, removedFirst)
	for _, n := range active[:-missing] {
		out.Remove = append(out.Remove, n.Claim)
	}
	if len(out.Remove) > 0 {
		return out // What is left is decided about when the objects show it.
	}
	// 3. So do drifted nodes, as many as others are initialized in their place.
	slices.SortStableFunc(drifted, removedFirst)
	out.Replaced = replaced(f.Replicas, active, drifted, replaceable)
	return out
}

// replaced returns the first of the drifted nodes in whose place others are initialized, most of them at most. The place of one that never was initialized
// itself is taken too once another is: else such a node would stay for ever.
func replaced(replicas int64, active, drifted []Node, most int64) (out []*karpv1.NodeClaim) {
	spare, ready := -replicas, -replicas
	for _, n := range active {
		if n.initialized() {
			ready++
		}
		if n.initialized() || n.drifted() {
			spare++
		}
	}
	spare = min(spare, most)
	for _, n := range drifted {
		if spare <= 0 || n.initialized() && ready <= 0 {
			continue
		}
		if n.initialized() {
			ready--
		}
		spare--
		out = append(out, n.Claim)
	}
	return out
}

// removedFirst orders nodes by what their end costs: nodes that are not initialized first, then empty ones, then the ones with the fewest
// pods, and protected ones last. Among equal ones drifted nodes come first, then the youngest.
func removedFirst(a, b Node) int {
	rank := func(n Node) int {
		switch {
		case n.Protected:
			return 3
		case !n.initialized():
			return 0
		case n.Pods == 0:
			return 1
		}
		return 2
	}
	drifted := func(n Node) int {
		if n.drifted() {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Pods, b.Pods), cmp.Compare(drifted(a), drifted(b)),
		b.Claim.CreationTimestamp.Compare(a.Claim.CreationTimestamp.Time), cmp.Compare(a.Claim.Name, b.Claim.Name),
	)
}

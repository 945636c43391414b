package handover

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
)

// Facts are what the owner of a NodeClaim and its Node depends on.
type Facts struct {
	// Claim is the NodeClaim.
	Claim *karpv1.NodeClaim
	// Node is its Node; nil while there is none.
	Node *corev1.Node
	// Alone means that no Karpenter runs.
	Alone bool
	// Selected means that its NodePool is handed over.
	Selected bool
	// Kept means that the admission policies keep Karpenter from the NodePool.
	Kept bool
}

// Step is one change of owner. A second one is decided once the first is seen.
type Step string

// The steps.
const (
	// Stay changes nothing.
	Stay Step = ""
	// TakeNode and TakeClaim make slipway the owner.
	TakeNode  Step = "take the Node"
	TakeClaim Step = "take the NodeClaim"
	// ReturnClaim and ReturnNode make Karpenter the owner.
	ReturnClaim Step = "return the NodeClaim"
	ReturnNode  Step = "return the Node"
	// ReleaseNode lets a Node go that is being deleted, for Karpenter to end the NodeClaim: it cannot have Karpenter's finalizer any more.
	ReleaseNode Step = "release the Node"
)

// Decide returns the next step.
func Decide(f Facts) Step {
	deleting := f.Claim.DeletionTimestamp != nil
	switch {
	case deleting && !finalizer.Taken(f.Claim) && f.holdsNode():
		return ReturnNode // Karpenter began to terminate the NodeClaim after slipway took its Node.
	case deleting && f.stranded():
		return ReleaseNode // The same, and the Node was deleted as well: Karpenter waits until it is gone.
	case deleting:
		return Stay // Who began it ends it.
	case f.stranded():
		return TakeClaim
	case f.Selected && !f.Alone:
		return f.take()
	}
	return f.giveBack()
}

// take is the Node first, then the NodeClaim: once the Node is slipway's no Karpenter can cordon it, and so begin to disrupt it.
func (f Facts) take() Step {
	node := f.Node != nil && f.Node.DeletionTimestamp == nil && !f.holdsNode()
	switch {
	case finalizer.Taken(f.Claim) && finalizer.Karpenters(f.Claim):
		return TakeClaim // A Karpenter added its own again, while there was no policy.
	case finalizer.Taken(f.Claim) && node:
		return TakeNode
	case finalizer.Taken(f.Claim), !f.Kept:
		return Stay
	case !conditions.ClaimIs(f.Claim, karpv1.ConditionTypeLaunched):
		return Stay // Karpenter may be in the middle of its launch.
	case f.Node != nil && f.Node.DeletionTimestamp != nil, node && disruption.Tainted(f.Node):
		return Stay // Karpenter disrupts the node, or stops to.
	case node:
		return TakeNode
	}
	return TakeClaim
}

// giveBack is the NodeClaim first: its Node is kept from Karpenter until the NodeClaim is Karpenter's.
func (f Facts) giveBack() Step {
	done := karpv1.ConditionTypeInitialized
	if f.Alone {
		done = karpv1.ConditionTypeLaunched // The owner is slipway in any case.
	}
	switch {
	case finalizer.Taken(f.Claim) && !conditions.ClaimIs(f.Claim, done):
		return Stay // slipway completes what it launched.
	case finalizer.Taken(f.Claim) && !f.Alone && f.Node != nil && (f.Node.DeletionTimestamp != nil || disruption.Tainted(f.Node)):
		return Stay // slipway disrupts the node.
	case finalizer.Taken(f.Claim):
		return ReturnClaim
	case f.holdsNode():
		return ReturnNode
	}
	return Stay
}

// stranded reports whether the Node was deleted between the two steps that change the owner: Karpenter does not drain a Node that has slipway's finalizer, and
// slipway no Node of a NodeClaim that is Karpenter's.
func (f Facts) stranded() bool {
	return !f.Alone && !finalizer.Taken(f.Claim) && f.Node != nil && f.Node.DeletionTimestamp != nil && finalizer.Taken(f.Node)
}

// holdsNode reports whether the Node is slipway's, and may change its owner.
func (f Facts) holdsNode() bool {
	return f.Node != nil && f.Node.DeletionTimestamp == nil && finalizer.Taken(f.Node)
}

package record

import karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

// Karpenter's reasons and messages of a NodeClaim that waits for its Node
// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle/registration.go and initialization.go).
const (
	// NodeNotFound is the reason of Registered while no kubelet has joined.
	NodeNotFound = "NodeNotFound"
	// NotRegistered is the message of Registered while it is not True.
	NotRegistered = "Node not registered with cluster"
	// NodeNotReady is the reason of Initialized while the Node is not Ready.
	NodeNotReady = "NodeNotReady"
	// NotReady is the message of Initialized while the Node is not Ready.
	NotReady = "Node status is NotReady"
)

// AwaitNode sets those conditions of a NodeClaim that say that its Node has not joined, unless they are True. A caller that writes them with
// the launch saves a write for each node.
func AwaitNode(c *karpv1.NodeClaim) {
	set := c.StatusConditions()
	if !set.Get(karpv1.ConditionTypeRegistered).IsTrue() {
		set.SetUnknownWithReason(karpv1.ConditionTypeRegistered, NodeNotFound, NotRegistered)
	}
	if !set.Get(karpv1.ConditionTypeInitialized).IsTrue() {
		set.SetUnknownWithReason(karpv1.ConditionTypeInitialized, NodeNotReady, NotReady)
	}
}

package interrupt

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// Effect is what a kind of message asks for.
type Effect struct {
	// Leave says that the node has to go; otherwise only an Event is recorded.
	Leave bool
	// EventType is Normal or Warning, EventReason Karpenter's; empty where no Event is due.
	EventType, EventReason string
	// EventMessage for the NodeClaim, the Node and its pods.
	EventMessage string
}

// EffectOf a kind of message; the zero Effect asks for nothing.
func EffectOf(kind cloud.MessageKind) Effect {
	switch kind {
	case cloud.SpotInterrupted:
		return Effect{true, corev1.EventTypeWarning, "SpotInterrupted", "Spot interruption warning was triggered"}
	case cloud.CapacityReservation:
		return Effect{true, corev1.EventTypeWarning, "CapacityReservationInstanceInterrupted", "Capacity Reservation interruption warning was triggered"}
	case cloud.ScheduledChange:
		return Effect{true, corev1.EventTypeWarning, "InstanceUnhealthy", "An unhealthy warning was triggered for the instance"}
	case cloud.InstanceStopped:
		return Effect{true, corev1.EventTypeWarning, "InstanceStopping", "Instance is stopping"}
	case cloud.InstanceTerminated:
		return Effect{true, corev1.EventTypeWarning, "InstanceTerminating", "Instance is terminating"}
	case cloud.RebalanceRecommendation:
		return Effect{false, corev1.EventTypeNormal, "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered"}
	case cloud.NoOp:
		return Effect{}
	}
	return Effect{}
}

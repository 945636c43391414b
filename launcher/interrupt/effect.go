package interrupt

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// Effect is what a kind of message requires.
type Effect struct {
	// Leave means that the node must terminate; otherwise only an Event is recorded.
	Leave bool
	// EventType is Normal or Warning, EventReason Karpenter's; empty if no Event is due.
	EventType, EventReason string
	// EventMessage is the text for the NodeClaim, the Node and its pods.
	EventMessage string
}

// EffectOf returns the effect of a kind of message; the zero Effect requires nothing.
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

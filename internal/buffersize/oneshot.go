package buffersize

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/clip"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// BookedForAnnotation is for how long the room of a one-shot buffer is kept for its pods, once all of it is there. Ten minutes without it.
const BookedForAnnotation = "slipway.dev/booked-for"

const (
	// bookedFor is how long that is without the annotation, as Cluster Autoscaler books the room of a ProvisioningRequest.
	bookedFor = 10 * time.Minute
	// bookedAtMost bounds the annotation.
	bookedAtMost = 24 * time.Hour
)

// The conditions of a one-shot buffer. Those that a ProvisioningRequest has are named like its own.
const (
	// ConditionInfeasible is True while no plan has room for all pods. Its reason is the planner's.
	ConditionInfeasible = "Infeasible"
	// ConditionProvisioned is True once all pods had room on initialized nodes: the pods may come.
	ConditionProvisioned = "Provisioned"
	// ConditionBookingExpired is True once the time for the pods to come is over: the room is free.
	ConditionBookingExpired = "BookingExpired"
)

// podsCame is the reason of the condition Provisioning of a one-shot buffer whose pods have all come.
const podsCame = "PodsCame"

// Booking is how far a one-shot buffer is.
type Booking struct {
	// Since is when all its pods had room; zero before. Nothing is launched for it from then on.
	Since time.Time
	// Until is when the room is free.
	Until time.Time
	// Came is how many pods have taken room since.
	Came int32
}

// Provisioned reports whether all pods had room at one time.
func (b *Booking) Provisioned() bool { return !b.Since.IsZero() }

// Expired reports whether the time for the pods to come is over.
func (b *Booking) Expired(now time.Time) bool { return b.Provisioned() && !now.Before(b.Until) }

// Took reports whether a pod on a node may have taken room of the buffer: it was bound since all pods had some.
func (b *Booking) Took(pod *corev1.Pod) bool {
	c := conditions.Pod(pod, corev1.PodScheduled)
	return c != nil && !c.LastTransitionTime.Time.Before(b.Since)
}

// Open returns for how many of the wanted pods room is kept, or wanted.
func (b *Booking) Open(wanted int32, now time.Time) int32 {
	if b.Expired(now) {
		return 0
	}
	return max(wanted-b.Came, 0)
}

// Finished reports whether the status says that a one-shot buffer keeps no room any more: all its pods came, or the time for that is over. A change
// of the spec asks again.
func Finished(cb *autoscalingv1beta1.CapacityBuffer) bool {
	b, err := BookingOf(cb)
	if err != nil || !b.Provisioned() || Strategy(&cb.Spec) != StrategyOneShot {
		return false
	}
	c := meta.FindStatusCondition(cb.Status.Conditions, autoscalingv1beta1.ProvisioningCondition)
	return meta.IsStatusConditionTrue(cb.Status.Conditions, ConditionBookingExpired) || c != nil && c.Reason == podsCame
}

// Settled reports whether the status of a buffer that is finished stays as it is: it says whether the time is over. A change of the annotation is one
// of the time.
func Settled(cb *autoscalingv1beta1.CapacityBuffer, now time.Time) bool {
	b, err := BookingOf(cb)
	return err == nil && Finished(cb) && b.Expired(now) == meta.IsStatusConditionTrue(cb.Status.Conditions, ConditionBookingExpired)
}

// BookingOf reads the booking from the status: that of an earlier spec counts for nothing. The error says what is wrong with the annotation.
func BookingOf(cb *autoscalingv1beta1.CapacityBuffer) (Booking, error) {
	length := bookedFor
	if text, ok := cb.Annotations[BookedForAnnotation]; ok {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length <= 0 || length > bookedAtMost {
			return Booking{}, fmt.Errorf("metadata.annotations[%s]: %q is no duration of more than 0 and at most %s", BookedForAnnotation, clip.Text(text, mostMessage), bookedAtMost)
		}
	}
	c := meta.FindStatusCondition(cb.Status.Conditions, ConditionProvisioned)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != cb.Generation {
		return Booking{}, nil
	}
	return Booking{Since: c.LastTransitionTime.Time, Until: c.LastTransitionTime.Add(length)}, nil
}

// SetBooking writes the conditions of a one-shot buffer that has a template. Nil places are not known.
func SetBooking(cb *autoscalingv1beta1.CapacityBuffer, b Booking, r Resolution, p *Places, now time.Time) {
	if b.Provisioned() {
		setBooked(cb, b, r, p, now)
		return
	}
	set := cb.SetCondition
	meta.RemoveStatusCondition(&cb.Status.Conditions, ConditionBookingExpired)
	if meta.IsStatusConditionTrue(cb.Status.Conditions, ConditionProvisioned) {
		// What an earlier spec had is not there for this one, and its time is another: only a condition that was False has a new one.
		set(ConditionProvisioned, metav1.ConditionFalse, RequiresNewCapacity, "The spec has changed")
	}
	SetPlaces(cb, r, p)
	switch {
	case r.Replicas == 0:
		set(ConditionProvisioned, metav1.ConditionFalse, BufferEmpty, empty(r))
		return
	case p == nil:
		return
	case p.NoRoom != "" && p.Reason != "":
		set(ConditionInfeasible, metav1.ConditionTrue, p.Reason, clip.Text(p.NoRoom, mostMessage))
	case p.NoRoom == "":
		set(ConditionInfeasible, metav1.ConditionFalse, "Planned", fmt.Sprintf("There is a plan with room for %d of %d pods", r.Replicas, r.Replicas))
	}
	if p.Existing >= int(r.Replicas) {
		set(ConditionProvisioned, metav1.ConditionTrue, ConditionProvisioned, fmt.Sprintf("%d of %d pods have room on initialized nodes", r.Replicas, r.Replicas))
		return
	}
	set(ConditionProvisioned, metav1.ConditionFalse, RequiresNewCapacity,
		fmt.Sprintf("%d of %d pods have room on initialized nodes, %d on nodes in flight", p.Existing, r.Replicas, p.InFlight))
}

// setBooked writes the conditions of a buffer whose pods all had room.
func setBooked(cb *autoscalingv1beta1.CapacityBuffer, b Booking, r Resolution, p *Places, now time.Time) {
	until := b.Until.UTC().Format(time.RFC3339)
	left := max(r.Replicas-b.Came, 0)
	set := cb.SetCondition
	switch {
	case b.Expired(now):
		set(ConditionBookingExpired, metav1.ConditionTrue, ConditionBookingExpired, "The room is free since "+until)
		if r.Failure != nil {
			SetPlaces(cb, r, p)
			return
		}
		set(autoscalingv1beta1.ProvisioningCondition, metav1.ConditionFalse, ConditionBookingExpired, fmt.Sprintf("%d of %d pods came until %s", b.Came, r.Replicas, until))
		return
	case r.Limited != "":
		set(autoscalingv1beta1.ProvisioningCondition, metav1.ConditionFalse, "RoomLost", fmt.Sprintf("%d came, the others have no room: %s", b.Came, r.Limited))
	case left == 0:
		set(autoscalingv1beta1.ProvisioningCondition, metav1.ConditionFalse, podsCame, fmt.Sprintf("%d of %d pods came", r.Replicas, r.Replicas))
	case p != nil && p.Existing < int(left):
		set(autoscalingv1beta1.ProvisioningCondition, metav1.ConditionFalse, "RoomLost",
			fmt.Sprintf("%d of %d pods came, %d of the others have room: %s", b.Came, r.Replicas, p.Existing, clip.Text(p.NoRoom, mostMessage)))
	case p != nil:
		set(autoscalingv1beta1.ProvisioningCondition, metav1.ConditionTrue, FitsExistingCapacity, fmt.Sprintf("%d of %d pods came, all others have room", b.Came, r.Replicas))
	}
	set(ConditionBookingExpired, metav1.ConditionFalse, "Booked", "The room is kept until "+until)
}

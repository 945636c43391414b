package catalog

import (
	"strconv"
	"time"
)

// The labels of nodes in a capacity reservation, which no other node has.
const (
	LabelReservationID            = "karpenter.k8s.aws/capacity-reservation-id"
	LabelReservationType          = "karpenter.k8s.aws/capacity-reservation-type"
	LabelReservationInterruptible = "karpenter.k8s.aws/capacity-reservation-interruptible"
)

// ReservationTypeBlock is the type of Capacity Blocks. All other reservations are of type default.
const ReservationTypeBlock = "capacity-block"

// BlockDrains is how long before the end of a Capacity Block its nodes are drained, as in Karpenter: EC2 begins to terminate the instances 30
// minutes before the end (EC2 user guide, "Capacity Blocks for ML"), and the drain has 10 minutes.
const BlockDrains = 40 * time.Minute

// BlockCloses is how long before the end of a Capacity Block nothing is launched into it any more. It comes before the drain, so that the scheduler
// knows it when it plans room for the pods of the nodes that drain.
const BlockCloses = BlockDrains + 30*time.Second

// ReservationLabelKeys returns the labels of nodes in a capacity reservation.
func ReservationLabelKeys() [3]string {
	return [...]string{LabelReservationID, LabelReservationType, LabelReservationInterruptible}
}

// ReservationLabel returns the value of a label of nodes in a capacity reservation; false if the offering is in none, or for other labels.
func (o *Offering) ReservationLabel(key string) (string, bool) {
	if o.ReservationID == "" {
		return "", false
	}
	switch key {
	case LabelReservationID:
		return o.ReservationID, true
	case LabelReservationType:
		return o.ReservationType, o.ReservationType != ""
	case LabelReservationInterruptible:
		return strconv.FormatBool(o.Interruptible), true
	}
	return "", false
}

// ReservationRank orders the kinds of capacity reservations as Karpenter buys them: those of type default, Capacity Blocks, and those that
// their owner may reclaim.
func ReservationRank(kind string, interruptible bool) int {
	switch {
	case interruptible:
		return 2
	case kind == ReservationTypeBlock:
		return 1
	}
	return 0
}

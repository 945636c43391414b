package block

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Decision is the decision about one NodeClaim.
type Decision struct {
	// Drain is true if the block ends soon.
	Drain bool
	// At is when the node drains; zero if that is not known.
	At time.Time
	// Message is the text of the Event.
	Message string
}

// ReservationOf returns the ID of the Capacity Block that a claim's instance runs in; empty for other claims and for those that are being
// deleted.
func ReservationOf(claim *karpv1.NodeClaim) string {
	if claim.Labels[catalog.LabelReservationType] != catalog.ReservationTypeBlock || claim.DeletionTimestamp != nil {
		return ""
	}
	return claim.Labels[catalog.LabelReservationID]
}

// Decide returns when the node of a Capacity Block drains. A block without an end is one that EC2 does not have any more: its instances are
// terminated already.
func Decide(reservationID string, end, now time.Time) Decision {
	if end.IsZero() {
		return Decision{}
	}
	at := end.Add(-catalog.BlockDrains)
	return Decision{
		Drain: !now.Before(at), At: at,
		Message: fmt.Sprintf("Capacity Block %s ends at %s: EC2 terminates its instances from 30 minutes before", reservationID, end.UTC().Format(time.RFC3339)),
	}
}

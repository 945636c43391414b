package disruption

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Deadline returns the end of the termination grace period of a NodeClaim that is being deleted, as its annotation
// karpenter.sh/nodeclaim-termination-timestamp has it; zero if none is recorded. As in Karpenter, any past time means that the
// period is over: users set one to force the end.
func Deadline(claim *karpv1.NodeClaim) (time.Time, error) {
	text := claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey]
	if text == "" || claim.DeletionTimestamp == nil {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("NodeClaim %s: annotation %s: %q is no time such as 2026-01-02T15:04:05Z", claim.Name, karpv1.NodeClaimTerminationTimestampAnnotationKey, text)
	}
	return at, nil
}

// GraceIsOver reports whether the NodeClaim is being deleted and its termination grace period has ended.
func GraceIsOver(claim *karpv1.NodeClaim, now time.Time) bool {
	at, err := Deadline(claim)
	return err == nil && !at.IsZero() && !now.Before(at)
}

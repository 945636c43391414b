package expire

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Decision about one NodeClaim.
type Decision struct {
	// Expired says that its time is over.
	Expired bool
	// At is when it will be; zero for never.
	At time.Time
}

// Decide says whether a claim has expired. One that leaves already does not expire as well.
func Decide(claim *karpv1.NodeClaim, now time.Time) Decision {
	after := claim.Spec.ExpireAfter.Duration
	if after == nil || claim.DeletionTimestamp != nil {
		return Decision{}
	}
	at := claim.CreationTimestamp.Add(*after)
	return Decision{Expired: !now.Before(at), At: at}
}

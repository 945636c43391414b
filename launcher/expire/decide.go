package expire

import (
	"crypto/sha256"
	"encoding/binary"
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

// share of expireAfter is what the soft window is at most.
const share = 10

// Soft is when the soft window of a claim begins: from then on its node may be replaced within the budgets, so that nothing is left
// to end when expireAfter is over. It is a tenth of expireAfter, and window at most, before the end, and a part of the first half of
// that later for each claim, by its UID: nodes that were born together do not leave together. Zero where there is none.
func Soft(claim *karpv1.NodeClaim, window time.Duration) time.Time {
	after := claim.Spec.ExpireAfter.Duration
	if after == nil || window <= 0 {
		return time.Time{}
	}
	window = min(window, *after/share)
	hash := sha256.Sum256([]byte(claim.UID))
	jitter := time.Duration(float64(window) / 2 * float64(binary.BigEndian.Uint32(hash[:])) / (1 << 32))
	return claim.CreationTimestamp.Add(*after - window + jitter)
}

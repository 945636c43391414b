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

// WindowAnnotation on a NodePool is how long the soft window of its nodes is, in place of the launcher's setting and its share of
// expireAfter; three quarters of expireAfter at most. With a budget that has a schedule it makes room for a maintenance window.
const WindowAnnotation = "slipway.dev/expiry-window"

// share of expireAfter is what the soft window is at most, where its NodePool does not say how long it is to be.
const share = 10

// Window is how long the soft window of a claim is: what its NodePool, which may be nil, says in WindowAnnotation, else a tenth of
// expireAfter, and setting at most. Zero where there is none.
func Window(claim *karpv1.NodeClaim, pool *karpv1.NodePool, setting time.Duration) time.Duration {
	after := claim.Spec.ExpireAfter.Duration
	if after == nil {
		return 0
	}
	if pool != nil {
		if own, err := time.ParseDuration(pool.Annotations[WindowAnnotation]); err == nil && own >= 0 {
			return min(own, *after/4*3)
		}
	}
	return max(min(setting, *after/share), 0)
}

// Soft is when the soft window of a claim begins: from then on its node may be replaced within the budgets, so that nothing is left
// to end when expireAfter is over. It is window before the end, and a part of the first half of that later for each claim, by its
// UID: nodes that were born together do not leave together. Zero where there is none.
func Soft(claim *karpv1.NodeClaim, window time.Duration) time.Time {
	after := claim.Spec.ExpireAfter.Duration
	if after == nil || window <= 0 {
		return time.Time{}
	}
	hash := sha256.Sum256([]byte(claim.UID))
	jitter := time.Duration(float64(window) / 2 * float64(binary.BigEndian.Uint32(hash[:])) / (1 << 32))
	return claim.CreationTimestamp.Add(*after - window + jitter)
}

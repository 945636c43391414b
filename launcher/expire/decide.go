package expire

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Decision is the decision about one NodeClaim.
type Decision struct {
	// Expired is true where expireAfter has passed.
	Expired bool
	// At is when the claim expires; zero for never.
	At time.Time
}

// Decide reports whether a claim has expired. A claim that is being deleted does not expire.
func Decide(claim *karpv1.NodeClaim, now time.Time) Decision {
	after := claim.Spec.ExpireAfter.Duration
	if after == nil || claim.DeletionTimestamp != nil {
		return Decision{}
	}
	at := claim.CreationTimestamp.Add(*after)
	return Decision{Expired: !now.Before(at), At: at}
}

// WindowAnnotation on a NodePool sets the soft window of its nodes, in place of the launcher's setting and the share of
// expireAfter. It is at most three quarters of expireAfter. Together with a scheduled budget it confines replacements to a
// maintenance window.
const WindowAnnotation = "slipway.dev/expiry-window"

// share is the divisor of expireAfter that limits the soft window where the NodePool does not set one.
const share = 10

// Window returns the length of a claim's soft window: what the NodePool sets in WindowAnnotation, else a tenth of
// expireAfter but at most setting. It is zero where expireAfter is Never. pool may be nil.
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

// Soft returns when the soft window of a claim begins. From then on its node may be replaced within the budgets, so that few
// nodes reach their hard expiry. The window ends at the expiry. Each claim begins up to half a window later, by a hash of
// its UID, so that nodes which were created together are not replaced together. It is zero where there is no window.
func Soft(claim *karpv1.NodeClaim, window time.Duration) time.Time {
	after := claim.Spec.ExpireAfter.Duration
	if after == nil || window <= 0 {
		return time.Time{}
	}
	hash := sha256.Sum256([]byte(claim.UID))
	jitter := time.Duration(float64(window) / 2 * float64(binary.BigEndian.Uint32(hash[:])) / (1 << 32))
	return claim.CreationTimestamp.Add(*after - window + jitter)
}

package leadership

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Margin is how long before the end of the Lease every effect ends: the time for a pending AWS or API server call to finish before another
// process may act.
const Margin = 3 * time.Second

// Until returns when identity's right to act ends unless the Lease is renewed; zero if the Lease names another identity, none, or no times.
func Until(lease *coordinationv1.Lease, identity string) time.Time {
	s := lease.Spec
	if identity == "" || s.HolderIdentity == nil || *s.HolderIdentity != identity {
		return time.Time{}
	}
	if s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return s.RenewTime.Add(term(lease))
}

// term returns how long a renewal gives the right to act; zero if the Lease has no duration.
func term(lease *coordinationv1.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second - Margin
}

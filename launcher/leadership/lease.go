package leadership

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Margin is how long before the end of the Lease every effect ends: time for an AWS or API server call on its way to
// be answered or to fail before somebody else may act.
const Margin = 3 * time.Second

// Until is the moment at which identity's right to act ends unless the Lease is renewed; zero where the Lease names
// somebody else, nobody, or no times.
func Until(lease *coordinationv1.Lease, identity string) time.Time {
	s := lease.Spec
	if identity == "" || s.HolderIdentity == nil || *s.HolderIdentity != identity {
		return time.Time{}
	}
	if s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second - Margin)
}

package terminate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// scope is one observation of a terminating NodeClaim.
type scope struct {
	claim *karpv1.NodeClaim
	// stored is the claim as it was read, the base of patches.
	stored *karpv1.NodeClaim
	// nodes of the claim: one, or two where a node registered under another name.
	nodes []*corev1.Node
	now   time.Time
	// deadline is the end of the termination grace period; zero if there is none.
	deadline time.Time
	// died means that the instance no longer runs and the node is not Ready.
	died bool
	// released means that nothing more is to be written on the claim.
	released bool
}

// claimID identifies a claim among those that have had its name. Of a claim that is gone, the name alone is known.
type claimID struct {
	name string
	uid  types.UID
}

func idOf(claim *karpv1.NodeClaim) claimID { return claimID{claim.Name, claim.UID} }

// step is a step of a termination. It returns how long to wait before the next check; 0 means that the next step may follow.
type step func(context.Context, *scope) (time.Duration, error)

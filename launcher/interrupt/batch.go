package interrupt

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// young is the maximum age of a message whose instance may belong to a launch that is not recorded yet.
const young = 2 * time.Minute

// batch is the result of one call of the queue.
type batch struct {
	messages []cloud.Message
	// pause is the time before the queue is read again.
	pause time.Duration
}

// unsure reports whether an instance that no NodeClaim names may still belong to this cluster: the message is young, and a launch is in
// progress according to the cache or this process. In an account with other clusters most messages concern other clusters' instances, so
// this makes no call of the API server, and does not read launched claims. Call it before looking for the claim: a claim recorded in between
// is then found.
func (i *Interruptions) unsure(ctx context.Context, m cloud.Message, now time.Time) (bool, error) {
	if m.Time.IsZero() || now.Sub(m.Time) > young {
		return false, nil
	}
	if i.config.Launching() {
		return true, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := i.config.Client.List(ctx, claims, client.MatchingFields{index.ClaimLaunching: index.Yes}, client.Limit(1)); err != nil {
		return false, fmt.Errorf("listing NodeClaims that are being launched: %w", err)
	}
	return len(claims.Items) > 0, nil
}

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

// young is how old a message may be for its instance to belong to a launch that is not recorded yet.
const young = 2 * time.Minute

// batch is what one call of the queue answered.
type batch struct {
	messages []cloud.Message
	// pause before the queue is asked again.
	pause time.Duration
}

// unsure says that an instance which no NodeClaim names may yet be one of ours: the message is young, and a launch is under way, as
// the cache or whoever launches knows. In an account with other clusters most messages are about nobody's instances here, so
// that this costs no call of the API server, and no look at claims that are launched. Ask before the claim is looked for: what is
// recorded in between is found then.
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

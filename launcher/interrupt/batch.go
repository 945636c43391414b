package interrupt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// young is how old a message may be for its instance to belong to a launch that is not recorded yet.
const young = 2 * time.Minute

// batch is what one call of the queue answered.
type batch struct {
	messages []cloud.Message
	// pause before the queue is asked again.
	pause time.Duration

	reader client.Reader
	once   sync.Once
	// launching says that some NodeClaim's launch was asked for and its instance is not recorded. It is read once for all
	// messages of the batch: in an account with other clusters, most instances are nobody's here.
	launching bool
	err       error
}

// foreign decides about an instance without a NodeClaim, and says whether its message is done with: it is somebody else's, or
// one of a launch that is being recorded, whose message must come again.
func (b *batch) foreign(ctx context.Context, m cloud.Message, now time.Time) (bool, error) {
	if m.Time.IsZero() || now.Sub(m.Time) > young {
		return true, nil
	}
	b.once.Do(func() {
		claims := &karpv1.NodeClaimList{}
		if err := b.reader.List(ctx, claims); err != nil {
			b.err = fmt.Errorf("list NodeClaims: %w", err)
			return
		}
		for _, c := range claims.Items {
			if c.Status.ProviderID == "" && c.Annotations[catalog.LaunchAnnotation] != "" && c.DeletionTimestamp == nil {
				b.launching = true
			}
		}
	})
	return !b.launching, b.err
}

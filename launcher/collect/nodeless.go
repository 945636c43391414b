package collect

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// nodelessFor is how long the Node of an instance that runs must be gone: a kubelet that is restarted creates it again.
const nodelessFor = 2 * time.Minute

// nodeless reports whether a claim's instance runs on although its Node is gone for good. That of a standby buffer that waits has none, or is about to
// have none.
func (s State) nodeless(i cloud.Instance, c *karpv1.NodeClaim) bool {
	since, gone := s.Nodeless[c.UID]
	return gone && s.Now.Sub(since) >= nodelessFor && i.State == cloud.StateRunning && c.DeletionTimestamp == nil && !s.ShiftsUnknown &&
		!record.StandbyOf(c).Waits()
}

// withoutNode notes since when initialized claims have no Node, as far as the looks since leadership was acquired show, and returns that. A Node that its
// kubelet has created again has no providerID at first.
func (c *Collector) withoutNode(claims []karpv1.NodeClaim, nodes []corev1.Node, now time.Time) map[types.UID]time.Time {
	there := map[string]bool{}
	for i := range nodes {
		if id := index.InstanceID(nodes[i].Spec.ProviderID); id != "" {
			there[id] = true
		} else {
			there[nodes[i].Name] = true
		}
	}
	out := map[types.UID]time.Time{}
	for i := range claims {
		claim := &claims[i]
		id := index.InstanceID(claim.Status.ProviderID)
		if id == "" || there[id] || there[claim.Status.NodeName] || !conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) {
			continue
		}
		out[claim.UID] = now
		if since, seen := c.nodeless[claim.UID]; seen {
			out[claim.UID] = since
		}
	}
	c.nodeless = out
	return out
}

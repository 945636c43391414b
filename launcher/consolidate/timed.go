package consolidate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
)

// Karpenter's Events about pods whose do-not-disrupt is a duration.
const (
	untilEvent   = "DoNotDisruptUntil"
	elapsedEvent = "DoNotDisruptGracePeriodElapsed"
)

// recordGracePeriods records when the do-not-disrupt of the node's pods ends, where it is a duration, and once that it has
// ended.
func (c *Consolidator) recordGracePeriods(n *member, now time.Time) {
	for _, pod := range n.timed {
		if disruption.Terminal(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		p := disruption.ProtectionOf(pod, now)
		switch {
		case p.Active && c.recorded.IsNew(untilEvent, string(pod.UID), "", now):
			c.config.Events.Eventf(pod, corev1.EventTypeNormal, untilEvent, "The %s grace period will elapse at %s",
				karpv1.DoNotDisruptAnnotationKey, p.Until.UTC().Format(time.RFC3339))
		case !p.Active && now.Sub(p.Until) < calm.EventEvery && c.recorded.IsNew(elapsedEvent, string(pod.UID), "", now):
			c.config.Events.Eventf(pod, corev1.EventTypeNormal, elapsedEvent, "The %s grace period has elapsed, pod is now disruptable",
				karpv1.DoNotDisruptAnnotationKey)
		}
	}
}

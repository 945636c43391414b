package consolidate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
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

// unconsolidatable is the Event that states why a node stays.
const unconsolidatable = "Unconsolidatable"

// recordReasons records on each node that stays why it stays, and on its NodePool where the settings of that keep all of its nodes: thousands of nodes need
// not say the same twice an hour.
func (c *Consolidator) recordReasons(ctx context.Context, f *fleet, kept []*api.KeptNode) {
	now := time.Now()
	c.recorded.Forget(now)
	for _, n := range f.nodes {
		c.recordGracePeriods(n, now)
		switch {
		case n.blocked.OfNodePool:
			c.recordOn(unconsolidatable, n.blocked.Why, n.pool)
		case n.blocked.Why != "" && !n.blocked.Passing:
			c.record(n, unconsolidatable, n.blocked.Why)
		}
	}
	for _, k := range kept {
		switch n := f.byName[k.GetName()]; {
		case n == nil || n.blocked.Why != "":
		case n.pool.Spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty:
			c.recordOn(unconsolidatable, k.GetReason(), n.pool) // The policy keeps nodes with pods, and the NodePool's budgets the others.
		default:
			c.record(n, unconsolidatable, k.GetReason())
		}
	}
	klog.FromContext(ctx).V(4).Info("Reasons were recorded for nodes that stay", "nodes", len(kept))
}

// record writes an Event about a node and its claim.
func (c *Consolidator) record(n *member, event, message string) {
	c.recordOn(event, message, n.node, n.claim)
}

// recordOn writes an Event about objects, unless one that says the same of the first was recorded recently, or several that say something else.
func (c *Consolidator) recordOn(event, message string, first client.Object, others ...client.Object) {
	if !c.recorded.IsNew(event, fmt.Sprintf("%T/%s", first, first.GetName()), message, time.Now()) {
		return
	}
	for _, object := range append([]client.Object{first}, others...) {
		c.config.Events.Eventf(object, corev1.EventTypeNormal, event, "%s", message)
	}
}

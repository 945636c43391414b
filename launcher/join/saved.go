package join

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// ahead is a pod that was bound before the scheduler could have bound it.
type ahead struct {
	at     time.Time
	moment bind.Moment
}

// admits reports whether the scheduler could bind the pod to the node now if the launcher's own taint were removed: the delay by that taint
// is not counted as saved. The pod would also have to wait for its turn, so the saving is a lower bound.
func admits(node *corev1.Node, pod *corev1.Pod) bool {
	_, found := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Key != catalog.StartingTaintKey && (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute)
	}, false)
	return !found
}

// bound records a binding, and reports the time that it saved if that is already known.
func (c *Controller) bound(o Observed, b bind.Binding, at time.Time) {
	c.metrics.bound.WithLabelValues(string(b.Moment)).Inc()
	if admits(o.Node, b.Pod) {
		c.metrics.saved.WithLabelValues(string(b.Moment)).Observe(0)
		return
	}
	c.memory.ahead(o.Claim.UID, b.Pod.UID, ahead{at: at, moment: b.Moment})
}

// saved reports, for each pod that was bound ahead, the time saved, once the scheduler could have bound it.
func (c *Controller) saved(o Observed) {
	if o.Node == nil {
		return
	}
	for _, s := range o.Slots {
		if s.Pod == nil || !admits(o.Node, s.Pod) {
			continue
		}
		if a, ok := c.memory.caughtUp(o.Claim.UID, s.Pod.UID); ok {
			c.metrics.saved.WithLabelValues(string(a.moment)).Observe(max(o.Now.Sub(a.at), 0).Seconds())
		}
	}
}

// ahead records a pod that was bound before the scheduler could have bound it.
func (m *memory) ahead(claim, pod types.UID, a ahead) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(claim).ahead[pod] = a
}

// caughtUp returns the record of such a pod, once.
func (m *memory) caughtUp(claim, pod types.UID) (ahead, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	a, ok := r.ahead[pod]
	delete(r.ahead, pod)
	return a, ok
}

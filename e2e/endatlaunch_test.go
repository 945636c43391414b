package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// EC2 ends each instance at launch, since the launcher's role may not use the KMS key of its volumes. The Event has the cause and what to check, and after
// two instances no more are launched for the NodePool.
func TestInstancesThatEC2EndsAtLaunchAlone(t *testing.T) {
	w := newWorld(t, "ends-at-launch")
	w.pool("ends-at-launch", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	aws.EndNextLaunches(shared.AWS(), 100, "Client.InternalError", "Client error on launch")
	t.Cleanup(func() { aws.EndNextLaunches(shared.AWS(), 0, "", "") })
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.await(t, "an Event with EC2's state reason and what to check", func() bool {
		var events corev1.EventList
		return w.client.List(t.Context(), &events, client.MatchingFields{"reason": "NodeDidNotJoin"}) == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return strings.Contains(e.Message, "Client.InternalError: Client error on launch") && strings.Contains(e.Message, "KMS key")
		})
	})
	w.await(t, "the NodePool to be held", func() bool {
		pool := &karpv1.NodePool{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: "ends-at-launch"}, pool); err != nil {
			return false
		}
		healthy := pool.StatusConditions().Get(karpv1.ConditionTypeNodeRegistrationHealthy)
		return healthy.IsFalse() && strings.Contains(healthy.Message, "KMS key")
	})
	// What would be launched without the hold comes within a second.
	launched := len(w.everClaimed("ends-at-launch"))
	time.Sleep(5 * time.Second)
	if n := len(w.everClaimed("ends-at-launch")); launched > 2 || n > launched {
		t.Errorf("%d NodeClaims before the hold, %d five seconds later", launched, n)
	}
}

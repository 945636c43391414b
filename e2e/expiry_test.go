package e2e_test

import (
	"slices"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/expire"
)

// hardEnd is when a NodeClaim is ended whatever the budgets say.
func hardEnd(c observe.Claim) time.Time {
	return c.Object.CreationTimestamp.Add(*c.Object.Spec.ExpireAfter.Duration)
}

// In the window before its expiry a fleet is replaced one node at a time, as its budget says, each before its hard end; the Deployment
// keeps the availability that its PodDisruptionBudget asks for.
func TestExpiringFleetIsReplacedWithinItsBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soft-expiry")
	class := w.ownClass(newerImages)
	w.pool("soft-expiry", func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
		// Three quarters, the longest window there is: a busy machine needs a minute to replace a node.
		p.Annotations = map[string]string{expire.WindowAnnotation: "150s"}
		p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("200s")
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}}
	})
	w.budget()
	const n = 2
	w.deployment("web", n, w.podSpec("300m", "512Mi", apart("web")))
	w.await(t, "all pods to be ready", func() bool { return w.ready() == n })
	first := w.claimsOf("soft-expiry")
	fewest, most := n, 0
	w.await(t, "the first nodes to be gone and all pods to be ready on others", func() bool {
		fewest = min(fewest, w.ready())
		gone, early := 0, true
		for _, c := range first {
			left := claimGone(w.cluster, c)
			if left {
				gone++
			}
			early = early && (left || time.Now().Before(hardEnd(c)))
		}
		if early {
			most = max(most, w.disrupted("soft-expiry"))
		}
		return gone == len(first) && w.ready() == n
	})
	if fewest < n-1 {
		t.Errorf("%d pods were ready at one time, the PodDisruptionBudget lets one be away", fewest)
	}
	if most > 1 {
		t.Errorf("%d nodes were disrupted at one time before any had to end, the budget allows one", most)
	}
	soft := 0
	for _, c := range w.everClaimed("soft-expiry") {
		if !slices.ContainsFunc(first, func(old observe.Claim) bool { return c.Object.UID == old.Object.UID }) {
			continue
		}
		if got := w.reasonOf(c); got != expire.Reason {
			t.Errorf("NodeClaim %s was ended for %q", c.Object.Name, got)
		}
		if at := c.Object.DeletionTimestamp; at != nil && at.Time.Before(hardEnd(c)) {
			soft++
		}
	}
	if soft == 0 {
		t.Errorf("no node of %d was replaced before its hard end", len(first))
	}
}

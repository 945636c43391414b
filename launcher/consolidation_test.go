package launcher

import (
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// Nodes that have drifted, expire soon, are in a move or are being deleted are no room for pods that move; others are. So are drifted nodes of a NodePool
// that replaces none: its budget holds the rollout, or its new nodes do not join.
func TestLeavingSoon(t *testing.T) {
	now := time.Now()
	claim := func(name string, tweak func(*karpv1.NodeClaim)) client.Object {
		c := &karpv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-10 * time.Hour))},
			Status:     karpv1.NodeClaimStatus{NodeName: name},
		}
		c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("720h")
		c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue}}
		tweak(c)
		return c
	}
	held := func(name string, budget karpv1.Budget) client.Object {
		p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"slipway.dev/expiry-window": "168h"}}}
		p.Spec.Disruption.Budgets = []karpv1.Budget{budget}
		return p
	}
	of := func(pool string, tweak func(*karpv1.NodeClaim)) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) {
			c.Labels = map[string]string{karpv1.NodePoolLabelKey: pool}
			tweak(c)
		}
	}
	drifted := func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue})
	}
	expiresIn := func(d time.Duration) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) { c.CreationTimestamp = metav1.NewTime(now.Add(d - 720*time.Hour)) }
	}
	stuck := func(c *karpv1.NodeClaim) {
		c.Status.Conditions = nil
		c.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: held("stuck", karpv1.Budget{Nodes: "1"}).(*karpv1.NodePool).Hash()}
	}
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
		claim("drifted", drifted),
		held("frozen", karpv1.Budget{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}),
		held("percent", karpv1.Budget{Nodes: "0%"}), held("invalid", karpv1.Budget{Nodes: "some"}), held("stuck", karpv1.Budget{Nodes: "1"}),
		held("others", karpv1.Budget{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonEmpty}}),
		claim("frozen-drifted", of("frozen", drifted)), claim("percent-drifted", of("percent", drifted)), claim("invalid-drifted", of("invalid", drifted)),
		claim("others-drifted", of("others", drifted)), claim("others-expires", of("others", expiresIn(80*time.Hour))),
		claim("frozen-expires", of("frozen", expiresIn(80*time.Hour))), claim("frozen-ends", of("frozen", expiresIn(time.Hour))),
		claim("frozen-drifted-ends", of("frozen", func(c *karpv1.NodeClaim) { drifted(c); expiresIn(time.Hour)(c) })),
		claim("frozen-drifted-never-ends", of("frozen", func(c *karpv1.NodeClaim) { drifted(c); c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never") })),
		claim("stuck-drifted", of("stuck", drifted)), claim("stuck-new", of("stuck", stuck)),
		claim("expires", func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("10h1s") }),
		claim("deleted", func(c *karpv1.NodeClaim) {
			c.Finalizers, c.DeletionTimestamp = []string{"x"}, &metav1.Time{Time: now}
		}),
		claim("moves", func(*karpv1.NodeClaim) {}),
		claim("stays", func(*karpv1.NodeClaim) {}),
		claim("boots", func(c *karpv1.NodeClaim) { c.Status.NodeName = "" }),
	).Build()
	inMove := func(node string) bool { return node == "moves" }
	if diff := cmp.Diff([]string{"deleted", "drifted", "expires", "frozen-drifted-ends", "frozen-ends", "moves", "others-drifted", "others-expires"}, leavingSoon(api, index.ListClaims(api), time.Hour, inMove)(t.Context())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

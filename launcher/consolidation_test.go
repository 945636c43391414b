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

// Nodes that have drifted, expire soon, are in a move or are being deleted are no room for pods that move; others are.
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
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
		claim("drifted", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue})
		}),
		claim("expires", func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("10h1s") }),
		claim("deleted", func(c *karpv1.NodeClaim) {
			c.Finalizers, c.DeletionTimestamp = []string{"x"}, &metav1.Time{Time: now}
		}),
		claim("moves", func(*karpv1.NodeClaim) {}),
		claim("stays", func(*karpv1.NodeClaim) {}),
		claim("boots", func(c *karpv1.NodeClaim) { c.Status.NodeName = "" }),
	).Build()
	inMove := func(node string) bool { return node == "moves" }
	if diff := cmp.Diff([]string{"deleted", "drifted", "expires", "moves"}, leavingSoon(api, index.ListClaims(api), time.Hour, inMove)(t.Context())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

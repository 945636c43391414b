package nodepool_test

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// sized is a type with a capacity and a price.
func sized(name, architecture, cpu string, price float64) catalog.InstanceType {
	out := instanceType(name, architecture, "us-east-1a", "spot")
	out.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi")}
	out.Offerings[0].Price = price
	return out
}

// A limit that leaves no room for the smallest node is a condition, and one Event each time that it is reached. The NodePool stays ready.
func TestLimitReachedIsReported(t *testing.T) {
	pool := validPool(t)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Labels: map[string]string{karpv1.NodePoolLabelKey: pool.Name}, Annotations: map[string]string{catalog.CostAnnotation: catalog.FormatCost(catalog.Cost{Instance: 0.2})},
	}}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pool, class(t, "ready"), claim).
		WithStatusSubresource(&karpv1.NodePool{}, &karpv1.NodeClaim{}, &awsv1.EC2NodeClass{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	api, recorded := b.Build(), record.NewFakeRecorder(10)
	c, err := nodepool.New(nodepool.Config{
		Client: api, Claims: index.ListClaims(api), Events: recorded, Guard: leadershiptest.Always{}, Leading: leading, Registerer: prometheus.NewRegistry(),
		Offers: offers{sized("m7g.medium", "arm64", "1", 0.01), sized("m6i.xlarge", "amd64", "4", 0.2), sized("m6i.large", "amd64", "2", 0.1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ limit, most, want string }{
		{"cpu", "6", ""},
		{"cpu", "5", "limit cpu of 5 reached: 4 in use, the smallest node, m6i.large, adds 2"},
		{"cpu", "100", ""},
		{"memory", "12Gi", "limit memory of 12Gi reached: 8Gi in use, the smallest node, m6i.xlarge, adds 8Gi"},
		{"nodes", "2", ""},
		{"nodes", "1", "limit nodes of 1 reached: 1 in use, the smallest node, m6i.xlarge, adds 1"},
		{"slipway.dev/usd-per-hour", "0.3", ""},
		{"slipway.dev/usd-per-hour", "0.29", "limit slipway.dev/usd-per-hour of 0.29 reached: 0.2 in use, the smallest node, m6i.large, adds 0.1"},
		{"nvidia.com/gpu", "0", ""},
	} {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			t.Fatal(err)
		}
		pool.Spec.Limits = karpv1.Limits{corev1.ResourceName(step.limit): resource.MustParse(step.most)}
		if err := api.Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pool)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			t.Fatal(err)
		}
		message := ""
		if got := pool.StatusConditions().Get(nodepool.ConditionLimitReached); got.IsTrue() {
			message = got.Message
		}
		if message != step.want || !pool.StatusConditions().Root().IsTrue() {
			t.Errorf("%s %s: %q, want %q; %v", step.limit, step.most, message, step.want, pool.Status.Conditions)
		}
		events := len(recorded.Events)
		if (events == 1) != (step.want != "") || events > 1 || events == 1 && !strings.Contains(<-recorded.Events, "Warning LimitReached No node more can be launched: "+step.want) {
			t.Errorf("%s %s: %d Events", step.limit, step.most, events)
		}
	}
}

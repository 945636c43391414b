package nodepool_test

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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

// A pause and its end are a condition, an Event each and a metric; the NodePool stays ready.
func TestPauseIsReported(t *testing.T) {
	pool := validPool(t)
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pool, class(t, "ready")).
		WithStatusSubresource(&karpv1.NodePool{}, &karpv1.NodeClaim{}, &awsv1.EC2NodeClass{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	api, recorded, registry := b.Build(), record.NewFakeRecorder(10), prometheus.NewRegistry()
	c, err := nodepool.New(nodepool.Config{
		Client: api, Claims: index.ListClaims(api), Offers: offers{instanceType("m5.large", "amd64", "us-east-1a", "spot")}, Events: recorded, Guard: leadershiptest.Always{}, Leading: leading, Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ value, event, metric string }{{"false", "", "0"}, {"true", "Normal DisruptionPaused ", "1"}, {"", "Normal DisruptionResumed ", "0"}} {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			t.Fatal(err)
		}
		pool.Annotations = map[string]string{catalog.PausedAnnotation: step.value}
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
		set := pool.StatusConditions()
		if paused := set.Get(nodepool.ConditionDisruptionPaused); paused.IsTrue() != (step.value == "true") || !set.Root().IsTrue() {
			t.Errorf("%q: the conditions are %v", step.value, pool.Status.Conditions)
		}
		var events []string
		for len(recorded.Events) > 0 {
			events = append(events, <-recorded.Events)
		}
		if all := strings.Join(events, "\n"); (step.event == "") != (all == "") || !strings.HasPrefix(all, step.event) || len(events) > 1 {
			t.Errorf("%q: the Events are %q", step.value, events)
		}
		want := "# HELP slipway_nodepool_disruption_paused 1 while the annotation slipway.dev/disruption-paused keeps a NodePool's nodes from voluntary disruption, 0 otherwise.\n" +
			"# TYPE slipway_nodepool_disruption_paused gauge\nslipway_nodepool_disruption_paused{nodepool=\"" + pool.Name + "\"} " + step.metric + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "slipway_nodepool_disruption_paused"); err != nil {
			t.Errorf("%q: %v", step.value, err)
		}
	}
}

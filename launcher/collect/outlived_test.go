package collect_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/collect"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

// When a capacity reservation ends, the NodeClaim and the Node of an instance that runs on as on-demand say so, and at which price. A round that
// fails is repeated: the NodeClaim is written last.
func TestEndOfACapacityReservation(t *testing.T) {
	ec2 := memory.New(memory.Config{})
	id := ec2.Put(cloud.Instance{CapacityType: "on-demand", LaunchTime: time.Now().Add(-time.Hour)})
	labels := map[string]string{
		karpv1.CapacityTypeLabelKey: "reserved", catalog.LabelReservationID: "cr-1", catalog.LabelReservationType: "default",
		catalog.LabelReservationInterruptible: "false", "team": "a",
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "default-1", Labels: maps.Clone(labels), Annotations: map[string]string{catalog.ExpectedAnnotation: "m5.large/us-east-1a/reserved/0.000001"},
	}}
	claim.Status.ProviderID = "aws:///us-east-1a/" + id
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: maps.Clone(labels)}}
	node.Spec.ProviderID = claim.Status.ProviderID
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim, node)
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	api, events, failure := b.Build(), record.NewFakeRecorder(9), errors.New("no prices yet")
	subject, err := collect.New(collect.Config{
		Reader: api, Client: api, Cloud: ec2, Guard: leadershiptest.Always{}, Ender: &ender{}, Events: events,
		Price: func(_ context.Context, c *karpv1.NodeClaim, i cloud.Instance) error {
			c.Annotations[catalog.ExpectedAnnotation] = "m5.large/us-east-1a/" + i.CapacityType + "/0.096000"
			return failure
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := func(o client.Object) map[string]string {
		t.Helper()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		return o.GetLabels()
	}
	if err := subject.Collect(t.Context()); !errors.Is(err, failure) || !maps.Equal(got(claim), labels) {
		t.Fatalf("%v, NodeClaim %v", err, claim.Labels)
	}
	failure = nil
	for range 2 {
		if err := subject.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{karpv1.CapacityTypeLabelKey: "on-demand", "team": "a"}
	if !maps.Equal(got(claim), want) || !maps.Equal(got(node), want) {
		t.Errorf("NodeClaim %v, Node %v, want %v", claim.Labels, node.Labels, want)
	}
	if got := claim.Annotations[catalog.ExpectedAnnotation]; got != "m5.large/us-east-1a/on-demand/0.096000" {
		t.Errorf("expected offering %s", got)
	}
	said := "Normal CapacityReservationEnded Capacity reservation cr-1 has ended: instance " + id + " runs on as on-demand"
	for range 2 {
		if got := <-events.Events; got != said {
			t.Errorf("Event %q, want %q", got, said)
		}
	}
	if len(events.Events) > 0 {
		t.Errorf("one more Event: %s", <-events.Events)
	}
}

package nodepool_test

import (
	"context"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
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

// offers lists the same instance types for every class.
type offers []catalog.InstanceType

// InstanceTypes implements nodepool.Offers.
func (o offers) InstanceTypes(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	return o, nil
}

// instanceType returns a type with one offering.
func instanceType(name, architecture, zone, capacityType string) catalog.InstanceType {
	return catalog.InstanceType{
		Name: name, Labels: map[string]string{corev1.LabelInstanceTypeStable: name, corev1.LabelArchStable: architecture},
		Offerings: []catalog.Offering{{Zone: zone, CapacityType: capacityType}},
	}
}

// types reads the instance types of a test case: a value for each, with its fields between colons.
func types(d *datadriven.TestData) []catalog.InstanceType {
	var out []catalog.InstanceType
	for _, arg := range d.CmdArgs {
		for _, value := range arg.Vals {
			if f := strings.Split(value, ":"); arg.Key == "types" && len(f) == 4 {
				out = append(out, instanceType(f[0], f[1], f[2], f[3]))
			}
		}
	}
	return out
}

// A pool from which nothing can be launched is reported once, looked at again, and ready when there is a type.
func TestIncompatiblePoolIsReported(t *testing.T) {
	pool := validPool(t)
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pool, class(t, "ready")).
		WithStatusSubresource(&karpv1.NodePool{}, &karpv1.NodeClaim{}, &awsv1.EC2NodeClass{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	api, recorded := b.Build(), record.NewFakeRecorder(10)
	offered := offers{instanceType("c7g.large", "arm64", "us-east-1a", "spot")}
	c, err := nodepool.New(nodepool.Config{
		Client: api, Claims: index.ListClaims(api), Offers: offered, Events: recorded, Guard: leadershiptest.Always{}, Leading: leading, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pool)})
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("again after %v, %v", result.RequeueAfter, err)
		}
	}
	if len(recorded.Events) != 1 || !strings.Contains(<-recorded.Events, "Warning NoCompatibleInstanceTypes No node can be launched: ") {
		t.Error("there is not one Event")
	}
	offered[0] = instanceType("m5.large", "amd64", "us-east-1a", "spot")
	result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pool)})
	if err != nil || result.RequeueAfter != 0 {
		t.Fatalf("again after %v, %v", result.RequeueAfter, err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil || !pool.StatusConditions().Root().IsTrue() {
		t.Errorf("the pool is not ready: %v, %v", pool.Status.Conditions, err)
	}
}

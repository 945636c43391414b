package nodepool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// leading stands for a replica that leads.
func leading() bool { return true }

// A replica that leads no more leaves the metrics of NodePools to the one that does.
func TestMetricsEndWithLeadership(t *testing.T) {
	pool := validPool(t)
	pool.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("10")}
	_, api := newController(t, pool, class(t, "ready"))
	registry, leads := prometheus.NewPedanticRegistry(), true
	c, err := nodepool.New(nodepool.Config{
		Client: api, Claims: index.ListClaims(api), Offers: offers{instanceType("m5.large", "amd64", "us-east-1a", "spot")}, Events: &record.FakeRecorder{},
		Guard: leadershiptest.Always{}, Leading: func() bool { return leads }, Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	reconcileOnce(t, c, api, "default")
	for _, leads = range []bool{true, false, true} {
		for _, name := range []string{"karpenter_nodepools_usage", "karpenter_nodepools_limit", "slipway_nodepool_disruption_paused"} {
			if n, err := testutil.GatherAndCount(registry, name); err != nil || n > 0 != leads {
				t.Errorf("leading %t: %d series of %s (%v)", leads, n, name, err)
			}
		}
	}
}

// A kubelet may report any number of resources; the series of its NodePool stay few, and those that every NodePool has stay.
func TestUsageIsBounded(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	for i := range 4000 {
		claim.Status.Capacity[corev1.ResourceName(fmt.Sprintf("a.io/device-%04d", i))] = resource.MustParse("1")
	}
	_, api := newController(t, validPool(t), class(t, "ready"), claim)
	registry := prometheus.NewPedanticRegistry()
	c, err := nodepool.New(nodepool.Config{Client: api, Claims: index.ListClaims(api), Offers: offers{instanceType("m5.large", "amd64", "us-east-1a", "spot")}, Events: &record.FakeRecorder{}, Guard: leadershiptest.Always{}, Leading: leading, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	reconcileOnce(t, c, api, "default")
	if n := testutil.CollectAndCount(registry, "karpenter_nodepools_usage"); n > 30 {
		t.Errorf("the usage of a NodePool has %d series", n)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var native []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "resource_type" && !strings.HasPrefix(l.GetValue(), "a.io/") {
					native = append(native, fmt.Sprintf("%s %v", l.GetValue(), m.GetGauge().GetValue()))
				}
			}
		}
	}
	if diff := cmp.Diff([]string{"cpu 4", "ephemeral-storage 0", "memory 0", "nodes 1", "pods 0"}, native); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

package server_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/health"
)

// A NodePool at its limits replaces its nodes, as Karpenter does: what terminates, or is in a move, does not count against its replacements. It counts
// against everything else, and makes room for so much once.
func TestReplacementsAtTheLimits(t *testing.T) {
	node := func(name string, tweak func(*karpv1.NodeClaim)) client.Object {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-" + name, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
		c.Status.NodeName, c.Status.Capacity = name, resources("2", "4Gi")
		tweak(c)
		return c
	}
	as := func(*karpv1.NodeClaim) {}
	deleted := func(c *karpv1.NodeClaim) {
		c.Finalizers, c.DeletionTimestamp = []string{karpv1.TerminationFinalizer}, &metav1.Time{Time: metav1.Now().Time}
	}
	elsewhere := func(c *karpv1.NodeClaim) { c.Labels[karpv1.NodePoolLabelKey] = "other" }
	cpu := karpv1.Limits{corev1.ResourceCPU: resource.MustParse("4")}
	for name, c := range map[string]struct {
		limits   karpv1.Limits
		nodes    []client.Object
		gate     health.Gate
		replaces []string
		// refused is what the refusal of the last of the claims has; empty if all are recorded.
		claims  int
		refused string
	}{
		"a node in a move":               {cpu, []client.Object{node("moves", as), node("b", as)}, health.Gate{}, []string{"moves"}, 1, ""},
		"a node that terminates":         {cpu, []client.Object{node("a", deleted), node("b", as)}, health.Gate{}, []string{"a"}, 1, ""},
		"twice":                          {cpu, []client.Object{node("moves", as), node("b", as)}, health.Gate{}, []string{"moves"}, 2, "spec.limits.cpu"},
		"its replacement exists":         {cpu, []client.Object{node("moves", as), node("b", as), node("c", as)}, health.Gate{}, []string{"moves"}, 1, "spec.limits.cpu"},
		"pods that have no node":         {cpu, []client.Object{node("moves", as), node("b", as)}, health.Gate{}, nil, 1, "spec.limits.cpu"},
		"a node that stays":              {cpu, []client.Object{node("a", as), node("b", as)}, health.Gate{}, []string{"a"}, 1, "spec.limits.cpu"},
		"a node of another NodePool":     {cpu, []client.Object{node("moves", elsewhere), node("a", as), node("b", as)}, health.Gate{}, []string{"moves"}, 1, "spec.limits.cpu"},
		"the number of nodes":            {karpv1.Limits{"nodes": resource.MustParse("2")}, []client.Object{node("moves", as), node("b", as)}, health.Gate{}, []string{"moves"}, 1, ""},
		"the number of nodes, twice":     {karpv1.Limits{"nodes": resource.MustParse("2")}, []client.Object{node("moves", as), node("b", as)}, health.Gate{}, []string{"moves"}, 2, "spec.limits.nodes"},
		"USD count at each moment":       {karpv1.Limits{catalog.LimitUSD: resource.MustParse("0.1")}, []client.Object{node("moves", priced)}, health.Gate{}, []string{"moves"}, 1, "usd-per-hour"},
		"one node at a time is tried":    {cpu, []client.Object{node("moves", as), node("b", as)}, health.Gate{OneAtATime: true}, []string{"moves"}, 1, "spec.limits.cpu"},
		"room that nothing is needed of": {cpu, []client.Object{node("b", as)}, health.Gate{}, nil, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(ready("default", c.limits), c.nodes...)...)
			w.gate.Store(&c.gate)
			for i := range c.claims {
				claim := planned("default-"+string(rune('1'+i)), "default")
				claim.Replaces = c.replaces
				got := w.launch(&api.LaunchRequest{Claims: []*api.Claim{claim}})[claim.GetName()]
				want := ""
				if i == c.claims-1 {
					want = c.refused
				}
				if got.GetRecorded() != (want == "") || !strings.Contains(got.GetMessage(), want) {
					t.Errorf("claim %d: %v, want %q", i+1, got, want)
				}
			}
		})
	}
}

// priced makes a NodeClaim one of the offering of types.
func priced(c *karpv1.NodeClaim) {
	c.Status.ProviderID = "aws:///us-east-1a/i-1"
	c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone], c.Labels[karpv1.CapacityTypeLabelKey] = "c7g.large", "us-east-1a", "on-demand"
}

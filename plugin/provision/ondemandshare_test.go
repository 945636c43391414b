package provision_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// sharing returns a pod of one ReplicaSet that spreads over zones and has a minimum on-demand share of 40%.
func sharing() *st.PodWrapper {
	return verifytest.Pod("web").OwnerReference("web", appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).Annotation(catalog.OnDemandShareAnnotation, "40%").
		SpreadConstraint(1, corev1.LabelTopologyZone, corev1.DoNotSchedule, st.MakeLabelSelector().Label("app", "web").Obj(), nil, nil, nil, nil)
}

// running returns a full node for each of CAPACITY-TYPE/ZONE/PODS, and the pods there.
func running(list ...string) (nodes []*corev1.Node, pods []*corev1.Pod) {
	for i, text := range list {
		var capacityType, zone string
		var n int
		if _, err := fmt.Sscan(strings.ReplaceAll(text, "/", " "), &capacityType, &zone, &n); err != nil {
			panic(err)
		}
		name := fmt.Sprint("node-", i)
		nodes = append(nodes, st.MakeNode().Name(name).Capacity(map[corev1.ResourceName]string{"cpu": "0", "memory": "0", "pods": "10"}).
			Label("karpenter.sh/nodepool", "default").Label("karpenter.sh/capacity-type", capacityType).Label(corev1.LabelTopologyZone, zone).
			Label(corev1.LabelHostname, name).Obj())
		for j := range n {
			id := fmt.Sprint("running-", i, "-", j)
			pods = append(pods, sharing().Name(id).UID(id).Namespace("default").Node(name).Obj())
		}
	}
	return nodes, pods
}

// The pod that a minimum on-demand share keeps off spot spreads over all nodes that it may use by itself, those on spot included, as
// the scheduler counts them.
func TestShareLeavesSpreadAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []string
		zones []string
		want  string
	}{
		"spot nodes count":     {[]string{"on-demand/a/1", "on-demand/b/1", "spot/a/1", "spot/c/2"}, []string{"a", "b", "c"}, "b"},
		"spot nodes make even": {[]string{"on-demand/a/1", "on-demand/b/0", "spot/b/1"}, []string{"a"}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			cat := verifytest.Zones(c.zones...)
			offerings := cat.InstanceTypes["default"][0].Offerings
			for _, o := range offerings {
				o.CapacityType, o.Price = "on-demand", 0.08
				offerings = append(offerings, o)
			}
			cat.InstanceTypes["default"][0].Offerings = offerings
			p, err := provision.New(provision.Config{Verifier: verifytest.New(t)})
			if err != nil {
				t.Fatal(err)
			}
			nodes, pods := running(c.nodes...)
			r, err := p.Provision(t.Context(), provision.Request{
				Classes: []plan.Class{verifytest.Class("web", 1, sharing())},
				Cluster: clusterview.Source{Snapshot: internalcache.NewSnapshot(pods, nodes), Catalog: cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil }},
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Plan.Claims) != 1 || len(r.Plan.Unplaced) > 0 {
				t.Fatalf("%d claims, unplaced %+v", len(r.Plan.Claims), r.Plan.Unplaced)
			}
			claim := &r.Plan.Claims[0]
			if claim.Expected.Zone != c.want || claim.Expected.CapacityType != "on-demand" || claim.Allows("karpenter.sh/capacity-type", "spot") {
				t.Errorf("the claim is %+v with %+v, want on-demand in zone %s", claim.Expected, claim.Requirements, c.want)
			}
		})
	}
}

package verify_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// Placements on nodes in flight and on nodes that exist are asked about like those on new ones.
func TestCheckPlacements(t *testing.T) {
	cat := catalog.State{InFlight: map[string]catalog.InFlightNode{"default-1": {
		NodeClaim: "default-1", Allocatable: verifytest.Quantities("cpu", "1", "memory", "8Gi", "pods", "10"),
	}}}
	small := st.MakeNode().Name("small").Capacity(map[corev1.ResourceName]string{"cpu": "1", "memory": "8Gi", "pods": "10"}).Obj()
	classes := []plan.Class{verifytest.Class("a", 6, verifytest.Pod("a"))}
	place := func(node string, inFlight bool, from, to int) plan.Placement {
		return plan.Placement{Node: node, InFlight: inFlight, Members: []plan.Member{{Class: 0, Pods: classes[0].Pods[from:to]}}}
	}
	v := verifytest.New(t)
	ask := func(placements ...plan.Placement) []plan.Rejection {
		return check(t, v, scene{classes, plan.Plan{Placements: placements}, cat, []*corev1.Node{small}})
	}
	if got := ask(place("default-1", true, 0, 2), place("small", false, 2, 4)); len(got) != 0 {
		t.Errorf("rejected %v: both fit", got)
	}
	got := ask(place("default-1", true, 0, 3), place("small", false, 3, 6))
	if len(got) != 2 || got[0].Node != "default-1" || got[1].Node != "small" {
		t.Errorf("rejected %v, want both nodes by name", got)
	}
	w, err := clusterview.New(klog.Background(), clusterview.Source{
		Snapshot: internalcache.NewSnapshot(nil, nil), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Check(t.Context(), w, classes, plan.Plan{Placements: []plan.Placement{place("gone", true, 0, 1)}}, cat); err == nil {
		t.Error("a placement on a node that does not exist must be an error")
	}
}

// 10,000 pods of 40 classes on 300 new nodes beside 1,000 that exist: verification must stay far below a second. A
// quarter of the classes keep their distance by host, another is spread over zones.
func BenchmarkCheck10000pods(b *testing.B) {
	var classes []plan.Class
	members := map[int]int{}
	for i := range 40 {
		app := fmt.Sprintf("app-%d", i)
		p := st.MakePod().Label("app", app).Req(map[corev1.ResourceName]string{"cpu": "20m", "memory": "64Mi"})
		members[i] = 1
		switch i % 4 {
		case 0:
			p.PodAntiAffinity("app", &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, st.PodAntiAffinityWithRequiredReq)
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = host
		case 1:
			p.SpreadConstraint(1, zone, corev1.DoNotSchedule, &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, nil, nil, nil, nil)
		}
		classes = append(classes, verifytest.Class(fmt.Sprintf("class-%d", i), 300, p))
	}
	var claims []verifytest.Claim
	for i := range 300 {
		claims = append(claims, verifytest.Claim{Name: fmt.Sprintf("n-%d", i), Zone: []string{"z1", "z2", "z3"}[i%3], Pods: members})
	}
	p := verifytest.PlanOf(classes, claims...)
	for i := range p.Claims {
		p.Claims[i].Allocatable[corev1.ResourcePods] = resource.MustParse("58")
	}
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for i := range 1000 {
		name := fmt.Sprintf("old-%d", i)
		nodes = append(nodes, st.MakeNode().Name(name).Label(host, name).Label(zone, []string{"z1", "z2", "z3"}[i%3]).Capacity(map[corev1.ResourceName]string{"cpu": "8", "pods": "58"}).Obj())
		for k := range 20 {
			id := fmt.Sprintf("%s-%d", name, k)
			pods = append(pods, st.MakePod().Namespace("default").Name(id).UID(id).Node(name).Label("app", "old").Obj())
		}
	}
	v := verifytest.New(b)
	w, err := clusterview.New(klog.Background(), clusterview.Source{
		Snapshot: internalcache.NewSnapshot(pods, nodes), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got, err := v.Check(b.Context(), w, classes, p, verifytest.Zones("z1", "z2", "z3")); err != nil || len(got.Verdicts) > 0 {
			b.Fatal(got.Verdicts, err)
		}
	}
}

package verify_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

func daemonSet(name, cpu string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", UID: types.UID(name)},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", cpu)},
		}}}}},
	}
}

// A starting node is as it will be: with its promised pods, what runs on it already, and the daemon pods to come.
func TestWorldOfStartingNodes(t *testing.T) {
	promised := pod("a").Name("promised").UID("promised").Obj()
	bound := pod("a").Name("bound").UID("bound").Node("ip-1").Obj()
	elsewhere := pod("a").Name("elsewhere").UID("elsewhere").Node("other").Obj()
	arrived := pod("d").Name("d1-x").UID("d1-x").Node("ip-1").OwnerReference("d1", appsv1.SchemeGroupVersion.WithKind("DaemonSet")).Obj()
	arrived.OwnerReferences[0].UID = "d1"
	node := st.MakeNode().Name("ip-1").Capacity(map[corev1.ResourceName]string{"cpu": "1"}).
		Taints([]corev1.Taint{{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule}}).Obj()
	old := st.MakeNode().Name("old").Capacity(map[corev1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj()
	byName := map[string]*corev1.Pod{"promised": promised, "bound": bound, "elsewhere": elsewhere}
	src := verify.Source{
		Snapshot: internalcache.NewSnapshot([]*corev1.Pod{bound, arrived}, []*corev1.Node{node, old}),
		Catalog: catalog.State{InFlight: map[string]catalog.InFlightNode{"default-1": {
			NodeClaim: "default-1", NodeName: "ip-1", Allocatable: quantities("cpu", "4", "memory", "8Gi", "pods", "10"),
			Pods: []catalog.PodRef{{Name: "promised", UID: "promised"}, {Name: "bound", UID: "bound"}, {Name: "elsewhere", UID: "elsewhere"}, {Name: "gone", UID: "gone"}},
		}}},
		DaemonSets: []*appsv1.DaemonSet{daemonSet("d1", "100m"), daemonSet("d2", "200m")},
		Pod:        func(ref catalog.PodRef) *corev1.Pod { return byName[ref.Name] },
	}
	w, err := verify.NewWorld(klog.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	nodes := w.PlanNodes()
	if len(nodes) != 2 || w.Existing() != 1 {
		t.Fatalf("nodes %v: the starting node must not count twice", nodes)
	}
	if nodes[0].Name != "old" || nodes[0].Free != nil {
		t.Errorf("existing node %+v: pending pods were tried there", nodes[0])
	}
	n := nodes[1]
	// 4000 - promised 500 - bound 500 - d1 500 (arrived, with the requests it has) - d2 200.
	if cpu := n.Free[corev1.ResourceCPU]; n.Name != "default-1" || cpu.MilliValue() != 2300 {
		t.Errorf("node %s has %s of CPU free, want 2300m", n.Name, cpu.String())
	}
	if pods := n.Free[corev1.ResourcePods]; pods.Value() != 6 {
		t.Errorf("%d pods free, want 6", pods.Value())
	}
	if len(n.Taints) != 0 {
		t.Errorf("taints %v: those of the start do not count", n.Taints)
	}

	src.Room = func(string) bool { return true }
	src.Going, src.Leave = "ip-1", map[types.UID]bool{"promised": true}
	if w, err = verify.NewWorld(klog.Background(), src); err != nil {
		t.Fatal(err)
	}
	if nodes = w.PlanNodes(); len(nodes) != 1 || nodes[0].Free == nil {
		t.Errorf("a node that goes is no room, the others are: %v", nodes)
	}
}

// Placements on nodes in flight and on nodes that exist are asked about like those on new ones.
func TestCheckPlacements(t *testing.T) {
	cat := catalog.State{InFlight: map[string]catalog.InFlightNode{"default-1": {
		NodeClaim: "default-1", Allocatable: quantities("cpu", "1", "memory", "8Gi", "pods", "10"),
	}}}
	small := st.MakeNode().Name("small").Capacity(map[corev1.ResourceName]string{"cpu": "1", "memory": "8Gi", "pods": "10"}).Obj()
	classes := []plan.Class{class("a", 6, pod("a"))}
	place := func(node string, inFlight bool, from, to int) plan.Placement {
		return plan.Placement{Node: node, InFlight: inFlight, Members: []plan.Member{{Class: 0, Pods: classes[0].Pods[from:to]}}}
	}
	v := newVerifier(t)
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
	w, err := verify.NewWorld(klog.Background(), verify.Source{
		Snapshot: internalcache.NewSnapshot(nil, nil), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Check(t.Context(), w, classes, plan.Plan{Placements: []plan.Placement{place("gone", true, 0, 1)}}, cat); err == nil {
		t.Error("a placement on a node that does not exist must be an error")
	}
}

// 10,000 pods of 20 classes on 500 nodes: verification must stay far below a second.
func BenchmarkCheck10000pods(b *testing.B) {
	var classes []plan.Class
	members := map[int]int{}
	for i := range 20 {
		small := st.MakePod().Label("app", "a").Req(map[corev1.ResourceName]string{"cpu": "50m", "memory": "64Mi"})
		classes = append(classes, class(fmt.Sprintf("class-%d", i), 500, small))
		members[i] = 1
	}
	var claims []claim
	for i := range 500 {
		claims = append(claims, claim{name: fmt.Sprintf("n-%d", i), zone: "z1", pods: members})
	}
	p := planOf(classes, claims...)
	v := newVerifier(b)
	w, err := verify.NewWorld(klog.Background(), verify.Source{
		Snapshot: internalcache.NewSnapshot(nil, nil), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got, err := v.Check(b.Context(), w, classes, p, catalog.State{}); err != nil || len(got) > 0 {
			b.Fatal(got, err)
		}
	}
}

package verify_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
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
	src.Going, src.Leave = map[string]bool{"ip-1": true}, map[types.UID]bool{"promised": true}
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

// How many more volumes a node can attach: what its CSINode says, less the volumes of its pods, each once.
func TestAttachable(t *testing.T) {
	client := fake.NewClientset(bound(func(*corev1.PersistentVolume) {})...)
	factory := informers.NewSharedInformerFactory(client, 0)
	volumes := verify.NewVolumes(factory)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	it := catalog.InstanceType{Name: "m7g.large", VolumeAttachments: 3}
	w, err := verify.NewWorld(klog.Background(), verify.Source{
		Snapshot: internalcache.NewSnapshot([]*corev1.Pod{
			st.MakePod().Namespace("default").Name("p").UID("p").Node("old").PVC("c").Obj(),
			st.MakePod().Namespace("default").Name("q").UID("q").Node("old").PVC("c").Obj(),
		}, []*corev1.Node{st.MakeNode().Name("old").UID("old").Obj()}),
		Catalog: catalog.State{
			NodePools:     map[string]catalog.NodePool{"default": {Name: "default", NodeClass: "default"}},
			InstanceTypes: map[string][]catalog.InstanceType{"default": {it}},
			InFlight:      map[string]catalog.InFlightNode{"new": {NodeClaim: "new", NodePool: "default", InstanceType: it.Name}},
		},
		Pod: func(catalog.PodRef) *corev1.Pod { return nil }, Room: func(string) bool { return true },
		Volumes: volumes, CSINodes: oneCSINode{},
	})
	if err != nil {
		t.Fatal(err)
	}
	nodes := w.PlanNodes()
	if len(nodes) != 2 || nodes[0].Attachable["ebs.csi.aws.com"] != 4 || nodes[1].Attachable["ebs.csi.aws.com"] != 3 {
		t.Errorf("nodes %+v: want 4 more on the one that exists (5 less 1), 3 on the one in flight", nodes)
	}
}

// oneCSINode says that any node takes five EBS volumes.
type oneCSINode struct{}

func (oneCSINode) List() ([]*storagev1.CSINode, error) { return nil, nil }
func (oneCSINode) Get(name string) (*storagev1.CSINode, error) {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: "ebs.csi.aws.com", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(5))},
		}}},
	}, nil
}

// A node that is cordoned is room for who tolerates that, whether or not its taint is there yet.
func TestCordonedNodes(t *testing.T) {
	node := st.MakeNode().Name("old").Capacity(map[corev1.ResourceName]string{"cpu": "1"}).Unschedulable(true).Obj()
	w, err := verify.NewWorld(klog.Background(), verify.Source{
		Snapshot: internalcache.NewSnapshot(nil, []*corev1.Node{node}), Room: func(string) bool { return true },
		Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := w.PlanNodes()[0]; len(n.Taints) != 1 || n.Taints[0].Key != corev1.TaintNodeUnschedulable {
		t.Errorf("taints %v, want the one of cordoned nodes", n.Taints)
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
		classes = append(classes, class(fmt.Sprintf("class-%d", i), 300, p))
	}
	var claims []claim
	for i := range 300 {
		claims = append(claims, claim{name: fmt.Sprintf("n-%d", i), zone: []string{"z1", "z2", "z3"}[i%3], pods: members})
	}
	p := planOf(classes, claims...)
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
	v := newVerifier(b)
	w, err := verify.NewWorld(klog.Background(), verify.Source{
		Snapshot: internalcache.NewSnapshot(pods, nodes), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got, err := v.Check(b.Context(), w, classes, p, zones("z1", "z2", "z3")); err != nil || len(got) > 0 {
			b.Fatal(got, err)
		}
	}
}

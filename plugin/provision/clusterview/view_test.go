package clusterview_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

func daemonSet(name, cpu string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", UID: types.UID(name)},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: verifytest.Quantities("cpu", cpu)},
		}}}}},
	}
}

// A starting node is as it will be: with its promised pods, what runs on it already, and the daemon pods to come.
func TestStartingNodes(t *testing.T) {
	promised := verifytest.Pod("a").Name("promised").UID("promised").Obj()
	bound := verifytest.Pod("a").Name("bound").UID("bound").Node("ip-1").Obj()
	elsewhere := verifytest.Pod("a").Name("elsewhere").UID("elsewhere").Node("other").Obj()
	arrived := verifytest.Pod("d").Name("d1-x").UID("d1-x").Node("ip-1").OwnerReference("d1", appsv1.SchemeGroupVersion.WithKind("DaemonSet")).Obj()
	arrived.OwnerReferences[0].UID, arrived.Namespace = "d1", "kube-system"
	node := st.MakeNode().Name("ip-1").Capacity(map[corev1.ResourceName]string{"cpu": "1"}).
		Taints([]corev1.Taint{{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule}}).Obj()
	old := st.MakeNode().Name("old").Capacity(map[corev1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj()
	byName := map[string]*corev1.Pod{"promised": promised, "bound": bound, "elsewhere": elsewhere}
	src := clusterview.Source{
		Snapshot: internalcache.NewSnapshot([]*corev1.Pod{bound, arrived}, []*corev1.Node{node, old}),
		Catalog: catalog.State{InFlight: map[string]catalog.InFlightNode{"default-1": {
			NodeClaim: "default-1", NodeName: "ip-1", Allocatable: verifytest.Quantities("cpu", "4", "memory", "8Gi", "pods", "10"),
			Pods: []catalog.PodRef{{Name: "promised", UID: "promised"}, {Name: "bound", UID: "bound"}, {Name: "elsewhere", UID: "elsewhere"}, {Name: "gone", UID: "gone"}},
		}}},
		DaemonSets: []*appsv1.DaemonSet{daemonSet("d1", "100m"), daemonSet("d2", "200m")},
		Pod:        func(ref catalog.PodRef) *corev1.Pod { return byName[ref.Name] },
	}
	v, err := clusterview.New(klog.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	nodes := v.PlanNodes()
	if len(nodes) != 2 || len(v.Existing()) != 1 {
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
	if v, err = clusterview.New(klog.Background(), src); err != nil {
		t.Fatal(err)
	}
	if nodes = v.PlanNodes(); len(nodes) != 1 || nodes[0].Free == nil {
		t.Errorf("a node that goes is no room, the others are: %v", nodes)
	}
}

// A node in flight that EC2 has not launched yet lacks the labels that EC2 decides. All DaemonSets count that may run there once it has them, and no other.
func TestDaemonsOfUndecidedNodes(t *testing.T) {
	requires := func(name, key string, operator corev1.NodeSelectorOperator, values ...string) *appsv1.DaemonSet {
		ds := daemonSet(name, "100m")
		ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}},
		}}}
		return ds
	}
	selects := func(name, key, value string) *appsv1.DaemonSet {
		ds := daemonSet(name, "100m")
		ds.Spec.Template.Spec.NodeSelector = map[string]string{key: value}
		return ds
	}
	it := catalog.InstanceType{Name: "m7g.large", Labels: map[string]string{corev1.LabelArchStable: "arm64", "karpenter.k8s.aws/instance-family": "m7g"}}
	flying := catalog.InFlightNode{
		NodeClaim: "default-1", NodePool: "default", Phase: catalog.PhaseRecorded, Labels: map[string]string{"karpenter.sh/capacity-type": "spot"},
		Allocatable: verifytest.Quantities("cpu", "4", "memory", "8Gi", "pods", "10"),
	}
	src := clusterview.Source{
		Snapshot: internalcache.NewSnapshot(nil, nil), Pod: func(catalog.PodRef) *corev1.Pod { return nil },
		Catalog: catalog.State{
			NodePools:     map[string]catalog.NodePool{"default": {Name: "default", NodeClass: "default"}},
			InstanceTypes: map[string][]catalog.InstanceType{"default": {it}},
		},
		DaemonSets: []*appsv1.DaemonSet{
			requires("arch", corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64", "arm64"),
			requires("family", "karpenter.k8s.aws/instance-family", corev1.NodeSelectorOpExists),
			selects("zone", corev1.LabelFailureDomainBetaZone, "us-east-1a"),
			selects("on-demand", "karpenter.sh/capacity-type", "on-demand"), // The label is known to be another.
			selects("team", "team", "x"), // Nodes of the NodePool do not get the label.
		},
	}
	for _, c := range []struct {
		phase catalog.Phase
		name  string
		free  int64
	}{{catalog.PhaseRecorded, "", 3700}, {catalog.PhaseLaunched, "ip-1", 4000}} {
		flying.Phase, flying.NodeName = c.phase, c.name
		src.Catalog.InFlight = map[string]catalog.InFlightNode{"default-1": flying}
		v, err := clusterview.New(klog.Background(), src)
		if err != nil {
			t.Fatal(err)
		}
		nodes := v.PlanNodes()
		if cpu := nodes[0].Free[corev1.ResourceCPU]; len(nodes) != 1 || cpu.MilliValue() != c.free {
			t.Errorf("phase %d: nodes %v, want one with %dm of CPU free", c.phase, nodes, c.free)
		}
	}
}

// A node in flight keeps room for the pod of the node that it replaces, until the pod is deleted or was released from its ReplicaSet: then its replacement is
// planned there, also by a scheduler that has just started.
func TestRoomOfADisplacedPod(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   int64
	}{
		"it runs":                        {func(*corev1.Pod) {}, 500},
		"it is being deleted":            {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, 1000},
		"it was released":                {func(p *corev1.Pod) { p.OwnerReferences = nil }, 1000},
		"its set has it still, or again": {func(*corev1.Pod) {}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			pod := verifytest.Pod("a").Name("displaced").UID("displaced").Node("old").OwnerReference("web", appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).Obj()
			if name != "it runs" {
				pod.Annotations = map[string]string{disruption.ReleasedAnnotation: disruption.Released{Set: "web", Version: "1", At: time.Now()}.String()}
			}
			c.change(pod)
			v, err := clusterview.New(klog.Background(), clusterview.Source{
				Snapshot: internalcache.NewSnapshot(nil, nil),
				Catalog: catalog.State{InFlight: map[string]catalog.InFlightNode{"new": {
					NodeClaim: "new", Replaces: []string{"old"}, Allocatable: verifytest.Quantities("cpu", "1", "memory", "8Gi", "pods", "10"),
					Pods: []catalog.PodRef{{Name: pod.Name, UID: string(pod.UID)}},
				}}},
				Pod: func(catalog.PodRef) *corev1.Pod { return pod },
			})
			if err != nil {
				t.Fatal(err)
			}
			if cpu := v.PlanNodes()[0].Free[corev1.ResourceCPU]; cpu.MilliValue() != c.want {
				t.Errorf("%s of CPU are free, want %dm", cpu.String(), c.want)
			}
		})
	}
}

// How many more volumes a node can attach: what its CSINode says, less the volumes of its pods, each once.
func TestAttachable(t *testing.T) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-c"}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}
	client := fake.NewClientset(pv, st.MakePersistentVolumeClaim().Namespace("default").Name("c").VolumeName(pv.Name).Obj())
	factory := informers.NewSharedInformerFactory(client, 0)
	volumes := podclass.NewVolumes(factory)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	it := catalog.InstanceType{Name: "m7g.large", VolumeAttachments: 3}
	v, err := clusterview.New(klog.Background(), clusterview.Source{
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
	nodes := v.PlanNodes()
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
	v, err := clusterview.New(klog.Background(), clusterview.Source{
		Snapshot: internalcache.NewSnapshot(nil, []*corev1.Node{node}), Room: func(string) bool { return true },
		Pod: func(catalog.PodRef) *corev1.Pod { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := v.PlanNodes()[0]; len(n.Taints) != 1 || n.Taints[0].Key != corev1.TaintNodeUnschedulable {
		t.Errorf("taints %v, want the one of cordoned nodes", n.Taints)
	}
}

// kube-controller-manager looks at Nodes every five seconds: its taints of a node that is Ready by then are gone in a moment. They count where the node is not
// Ready, for pods that go there at once, and beside other taints, which stay.
func TestTaintsThatGo(t *testing.T) {
	for _, c := range []struct {
		name  string
		ready corev1.ConditionStatus
		gone  bool
		want  int
	}{
		{"ready", corev1.ConditionTrue, true, 1},
		{"not ready", corev1.ConditionFalse, true, 3},
		{"pods go there at once", corev1.ConditionTrue, false, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := st.MakeNode().Name("ip-1").Capacity(map[corev1.ResourceName]string{"cpu": "4", "pods": "10"}).Taints([]corev1.Taint{
				{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
				{Key: "own", Effect: corev1.TaintEffectNoSchedule},
				{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
			}).Obj()
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.ready}}
			v, err := clusterview.New(klog.Background(), clusterview.Source{
				Snapshot: internalcache.NewSnapshot(nil, []*corev1.Node{node}), Pod: func(catalog.PodRef) *corev1.Pod { return nil }, TaintsGo: c.gone,
			})
			if err != nil {
				t.Fatal(err)
			}
			shown := v.Existing()[0].Node()
			if got := v.PlanNodes()[0].Taints; len(got) != c.want || len(shown.Spec.Taints) != c.want || len(node.Spec.Taints) != 3 {
				t.Errorf("taints %v, want %d, and 3 on the Node", got, c.want)
			}
		})
	}
}

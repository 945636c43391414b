package hooks_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/hooks"
)

// cycles runs the real scheduler's cycles, one after the other, in a cluster of its own.
type cycles struct {
	testing.TB
	*scheduler.Scheduler
	plugin *served
	// last is how the last pod's cycle ended, and unfit why.
	last  scheduler.ScheduleResult
	unfit error
	n     int
	// signed are the tries in which Kubernetes' batching knows the pod's signature.
	signed []bool
}

// inCluster returns a scheduler with that many nodes in three zones and six racks, with room for four pods of one CPU each. Without hints it is kube-scheduler's own.
func inCluster(tb testing.TB, nodes int, hinted bool) *cycles {
	tb.Helper()
	c := &cycles{TB: tb, plugin: &served{class: "a"}}
	client := fake.NewClientset()
	client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	sched, factory := upstream(tb, client)
	c.Scheduler = sched
	stock := sched.SchedulePod
	sched.SchedulePod = func(ctx context.Context, fw framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		c.signed = append(c.signed, info.PodSignature != nil)
		return stock(ctx, fw, state, info)
	}
	allowed := sets.New("another")
	if hinted {
		allowed.Insert("default-scheduler")
	}
	if err := hooks.Install(hooks.Config{
		Scheduler: sched, Plugin: c.plugin, Pods: factory.Core().V1().Pods().Lister(), Rejector: "NodeLaunch", Waker: "NodeReserve", Hints: allowed,
	}); err != nil {
		tb.Fatal(err)
	}
	try := sched.SchedulePod
	sched.SchedulePod = func(ctx context.Context, fw framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		info.PodSignature = fwk.PodSignature("alike")
		c.last, c.unfit = try(ctx, fw, state, info)
		return c.last, c.unfit
	}
	begin(tb, sched, factory)
	for i := range nodes {
		sched.Cache.AddNode(klog.Background(), clusterNode(i))
	}
	return c
}

func clusterNode(i int) *corev1.Node {
	return st.MakeNode().Name(fmt.Sprintf("n%d", i)).Label(corev1.LabelHostname, fmt.Sprintf("n%d", i)).
		Label(corev1.LabelTopologyZone, fmt.Sprintf("zone-%d", i%3)).Label("rack", fmt.Sprintf("rack-%d", i%6)).
		Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "4", corev1.ResourceMemory: "64Gi", corev1.ResourcePods: "110"}).Obj()
}

// place runs a cycle for a pod of one CPU that is like all others with the same change, and returns its node.
func (c *cycles) place(change func(*corev1.Pod)) string {
	c.Helper()
	name := fmt.Sprintf("web-%d", c.n)
	c.n++
	pod := st.MakePod().Namespace("default").Name(name).UID(name).Label("app", "web").SchedulerName("default-scheduler").
		Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "1"}).Obj()
	if change != nil {
		change(pod)
	}
	c.SchedulingQueue.Add(c.Context(), pod)
	c.last, c.unfit = scheduler.ScheduleResult{}, nil
	c.ScheduleOne(c.Context())
	return c.last.SuggestedHost
}

// few is more nodes than a hint has in three zones, and less than kube-scheduler looks at.
const few = 50

// Equal pods are tried on the best nodes of the first one, and on all nodes again after some of them.
func TestEqualPodsAreTriedOnTheBestNodes(t *testing.T) {
	c := inCluster(t, 600, true)
	var tried []bool
	for range 27 {
		if c.place(nil) == "" {
			t.Fatal(c.unfit)
		}
		tried = append(tried, c.last.EvaluatedNodes > few)
	}
	want := slices.Repeat([]bool{true, false, false, false, false, false, false, false, false}, 3)
	if !slices.Equal(tried, want) || c.plugin.hinted.Load() != 24 {
		t.Errorf("pods were tried on all nodes: %v, want %v; %d have hints", tried, want, c.plugin.hinted.Load())
	}
	if c.place(func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "another" }); c.last.EvaluatedNodes <= few {
		t.Error("a pod of another image has the hint")
	}
	// Else Kubernetes' opportunistic batching would place further pods on the nodes of a hint.
	if want := append(want, true); !slices.Equal(c.signed, want) {
		t.Errorf("tries with a signature: %v, want %v", c.signed, want)
	}
	c.plugin.class = "b"
	if c.place(nil); c.last.EvaluatedNodes <= few {
		t.Error("a pod of another class has the hint")
	}
}

// A pod that fits none of the best nodes is tried on all of them, and one that fits none at all fails as it does without hints.
func TestUnfitHints(t *testing.T) {
	const nodes = 600
	c := inCluster(t, nodes, true)
	c.place(nil)
	for i := range nodes - 1 {
		filler := st.MakePod().Namespace("default").Name(fmt.Sprintf("filler-%d", i)).UID(fmt.Sprintf("filler-%d", i)).Node(fmt.Sprintf("n%d", i)).
			Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "4"}).Obj()
		if err := c.Cache.AddPod(klog.Background(), filler); err != nil {
			t.Fatal(err)
		}
	}
	last := fmt.Sprintf("n%d", nodes-1)
	for {
		got := c.place(nil)
		if got == "" {
			break
		}
		if got != last {
			t.Fatalf("a pod is placed on %q, want %q", got, last)
		}
	}
	if c.n < 4 || c.unfit == nil || !strings.HasPrefix(c.unfit.Error(), "0/600 nodes are available: 600 Insufficient cpu. ") {
		t.Errorf("after %d pods: %v", c.n, c.unfit)
	}
}

// Pods whose preferences are about groups of nodes that a hint may not have, for which room is reserved, or whose class is unknown, are tried on all nodes, and so are all pods where the
// configuration says how many nodes are scored.
func TestPodsWithoutHints(t *testing.T) {
	soft := func(pod *corev1.Pod) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver("rack", corev1.ScheduleAnyway)}
	}
	preferred := func(pod *corev1.Pod) {
		term := corev1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}},
		}}
	}
	for name, tc := range map[string]struct {
		nodes            int
		hinted, reserved bool
		class            string
		change           func(*corev1.Pod)
	}{
		"soft spread over racks":      {600, true, false, "a", soft},
		"preferred terms about racks": {600, true, false, "a", preferred},
		"no class":                    {600, true, false, "", nil},
		"few nodes":                   {300, true, false, "a", nil},
		"as configured":               {600, false, false, "a", nil},
		"room is reserved":            {600, true, true, "a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := inCluster(t, tc.nodes, tc.hinted)
			c.plugin.class, c.plugin.reserved = tc.class, tc.reserved
			for range 3 {
				if c.place(tc.change); c.last.EvaluatedNodes <= few {
					t.Errorf("pod %d was tried on %d nodes", c.n, c.last.EvaluatedNodes)
				}
			}
		})
	}
}

func spreadOver(key string, unsatisfiable corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: unsatisfiable, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
}

// constraints are changes of a pod with what they keep to: the most of its kind on a node, and how many more in one zone than in another; 0 for any number.
func constraints() map[string]struct {
	change        func(*corev1.Pod)
	onNode, skews int
} {
	own := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	return map[string]struct {
		change        func(*corev1.Pod)
		onNode, skews int
	}{
		"none": {nil, 2, 0},
		"hard zones": {func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver(corev1.LabelTopologyZone, corev1.DoNotSchedule)}
		}, 2, 1},
		"soft zones": {func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver(corev1.LabelTopologyZone, corev1.ScheduleAnyway)}
		}, 2, 2},
		"hard racks": {func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver("rack", corev1.DoNotSchedule)}
		}, 2, 3},
		"apart": {func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{own}}}
		}, 1, 0},
	}
}

// Pods with hints keep the constraints that they have, and are spread as without.
func TestHintsSpread(t *testing.T) {
	for name, want := range constraints() {
		t.Run(name, func(t *testing.T) {
			c := inCluster(t, 450, true)
			onNode, ofZone := map[string]int{}, map[string]int{}
			for range 200 {
				node := c.place(want.change)
				if node == "" {
					t.Fatalf("pod %d: %v", c.n, c.unfit)
				}
				onNode[node]++
				var i int
				if _, err := fmt.Sscanf(node, "n%d", &i); err != nil {
					t.Fatal(err)
				}
				ofZone[fmt.Sprintf("zone-%d", i%3)]++
				skew := max(ofZone["zone-0"], ofZone["zone-1"], ofZone["zone-2"]) - min(ofZone["zone-0"], ofZone["zone-1"], ofZone["zone-2"])
				if want.skews > 0 && skew > want.skews {
					t.Fatalf("after %d pods the zones have %v", c.n, ofZone)
				}
			}
			if most := slices.Max(slices.Collect(maps.Values(onNode))); most > want.onNode {
				t.Errorf("%d pods are on one node", most)
			}
			if c.plugin.hinted.Load() < 100 {
				t.Errorf("%d of %d pods were placed by hints", c.plugin.hinted.Load(), c.n)
			}
		})
	}
}

// BenchmarkCycle measures cycles for equal pods in a cluster of 5,000 nodes, with hints and without.
func BenchmarkCycle(b *testing.B) {
	for _, hinted := range []bool{true, false} {
		b.Run(fmt.Sprintf("hints=%v", hinted), func(b *testing.B) {
			c := inCluster(b, 5000, hinted)
			for b.Loop() {
				if c.place(nil) == "" {
					b.Fatal(c.unfit)
				}
			}
		})
	}
}

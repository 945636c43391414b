package scalein_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/controller"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/scalein"
)

func node(name string, cpus int64) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}
	return n
}

func podOf(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}},
	}}
}

// shrink returns how many pods are left on each node once the ReplicaSet controller has ended all but n, by its own order.
func shrink(pods []*corev1.Pod, n int, now time.Time) map[string]int {
	list, on := controller.ActivePodsWithRanks{Pods: slices.Clone(pods), Now: metav1.NewTime(now)}, map[string]int{}
	for _, p := range pods {
		on[p.Spec.NodeName]++
	}
	for _, p := range list.Pods {
		list.Rank = append(list.Rank, on[p.Spec.NodeName])
	}
	sort.Sort(list)
	left := map[string]int{}
	for _, p := range list.Pods[len(list.Pods)-n:] {
		left[p.Spec.NodeName]++
	}
	return left
}

// Pods of a set that are bound with costs, each node's at another moment, leave nodes empty when the set shrinks, by the ReplicaSet controller's own order: what is
// left is on as few nodes as hold it, and on LastNodes more at most. It is on LastNodes nodes at least as long as it has as many pods.
func TestSetsLeaveNodesEmpty(t *testing.T) {
	random, now, with, without := rand.New(rand.NewPCG(1, 2)), time.Now(), 0, 0
	for range 200 {
		nodes, each := 3+random.IntN(20), 2+random.IntN(10)
		var pods, plain []*corev1.Pod
		kept := map[string]bool{}
		for i := range nodes {
			n := node(fmt.Sprint("node-", random.Uint64()), 8)
			for k := range each {
				p := podOf(fmt.Sprint("web-", i, "-", k))
				p.Spec.NodeName, p.Status.Phase = n.Name, corev1.PodRunning
				p.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(random.IntN(86400)) * time.Second))
				plain = append(plain, p.DeepCopy())
				last := scalein.KeepsAnother(n.Name, kept)
				if cost := scalein.Cost(n, last); last != scalein.Kept(cost) {
					t.Fatalf("a pod of the cost %s is kept for last: %v", cost, last)
				} else if p.Annotations = map[string]string{corev1.PodDeletionCost: cost}; last {
					kept[n.Name] = true
				}
				pods = append(pods, p)
			}
		}
		n := 1 + random.IntN(nodes*each)
		left, least := shrink(pods, n, now), (n+each-1)/each
		if most := least + scalein.LastNodes; len(left) > most {
			t.Errorf("of %d pods on %d nodes %d are left on %d, want %d at most: %v", nodes*each, nodes, n, len(left), most, left)
		}
		if want := min(n, scalein.LastNodes); len(left) < want {
			t.Errorf("of %d pods on %d nodes %d are left on %d, want %d at least: %v", nodes*each, nodes, n, len(left), want, left)
		}
		with, without = with+len(left), without+len(shrink(plain, n, now))
	}
	if 5*with > 4*without {
		t.Errorf("the pods that are left are on %d nodes in sum, without costs on %d", with, without)
	}
}

// Pods on larger nodes end first, those of one node have one cost, and costs hardly count as costs of an eviction.
func TestCost(t *testing.T) {
	last := 1 << 30
	for _, cpus := range []int64{1, 2, 4, 8, 16, 32, 64, 128, 256} {
		lowest, highest := 1<<30, 0
		for i := range 300 {
			n := node(fmt.Sprint("ip-10-0-0-", i, ".ec2.internal"), cpus)
			cost, err := strconv.Atoi(scalein.Cost(n, false))
			kept, keptErr := strconv.Atoi(scalein.Cost(n, true))
			if err != nil || keptErr != nil || cost < 1 || kept > 20000 || kept-cost != scalein.Last-1 || scalein.Kept(strconv.Itoa(cost)) {
				t.Fatalf("a pod on a node of %d CPUs costs %d, and %d if it is kept for last: %v, %v", cpus, cost, kept, err, keptErr)
			}
			lowest, highest = min(lowest, cost), max(highest, cost)
		}
		if highest >= last {
			t.Errorf("pods on nodes of %d CPUs cost up to %d, on smaller ones %d at least", cpus, highest, last)
		}
		last = lowest
	}
	for _, n := range []*corev1.Node{{}, node("large", 1<<40)} {
		if cost := scalein.Cost(n, true); !scalein.Kept(cost) {
			t.Errorf("a pod on a node of %s CPUs costs %s", n.Status.Capacity.Cpu(), cost)
		}
	}
	for _, cost := range []string{"", "none", "10000", "20001", "2147483647", "-5"} {
		if scalein.Kept(cost) {
			t.Errorf("a pod with the cost %q is one that its set keeps for last", cost)
		}
	}
}

func TestGoverned(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a pod of a ReplicaSet":       {func(*corev1.Pod) {}, true},
		"one of a StatefulSet":        {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "StatefulSet" }, false},
		"one without an owner":        {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"one with a cost of its own":  {func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "7"} }, false},
		"one with a spread":           {func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, 1) }, false},
		"one with node affinity":      {func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}} }, true},
		"one with pod anti-affinity":  {func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}} }, false},
		"one with other annotations":  {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, true},
		"one whose node is given":     {func(p *corev1.Pod) { p.Spec.NodeName = "node-1" }, true},
		"one that another owner owns": {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, false},
	} {
		pod := podOf("web-1")
		c.change(pod)
		if got := scalein.Governed(pod); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestOff(t *testing.T) {
	for text, want := range map[string]string{"off": "", "false": `metadata.annotations[slipway.dev/pod-deletion-cost]: "false": off is expected; pods get deletion costs`} {
		off, err := scalein.Off(map[string]string{catalog.DeletionCostAnnotation: text})
		if off != (want == "") || off == (err != nil) || err != nil && err.Error() != want {
			t.Errorf("%q: %v, %v", text, off, err)
		}
	}
	if off, err := scalein.Off(nil); off || err != nil {
		t.Errorf("without the annotation: %v, %v", off, err)
	}
}

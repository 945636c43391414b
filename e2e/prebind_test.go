package e2e_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/sim"
	"github.com/slipway-k8s/slipway/e2e/observe"
)

// Early binding was taken out of Karpenter because it broke pods; docs/node-lifecycle.md lists the failures as R1 to R12. Each test
// here shows one twice: a pod that is bound by hand, carelessly, to a node of slipway's breaks; slipway's own pod beside it does not.

// carelessPod creates a pod that no scheduler cares for: the test binds it.
func (w *world) carelessPod(spec corev1.PodSpec) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "careless"}, Spec: spec}
	pod.Spec.SchedulerName = "careless"
	w.create(pod)
	return pod
}

// bindTo binds a pod as anybody may who has the right to.
func (w *world) bindTo(pod *corev1.Pod, node string) error {
	w.t.Helper()
	return w.client.SubResource("binding").Create(w.t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
}

// bindAtLaunch binds the pod to the pool's first node before its kubelet has started.
func (w *world) bindAtLaunch(pod *corev1.Pod, pool string) (node string) {
	w.t.Helper()
	w.await(w.t, "a Node of "+pool, func() bool {
		for _, c := range w.claimsOf(pool) {
			if n := w.node(c.Object.Status.NodeName); n.Object.Name != "" {
				node = n.Object.Name
				return true
			}
		}
		return false
	})
	if err := w.bindTo(pod, node); err != nil {
		w.t.Fatal(err)
	}
	return node
}

// history returns what was seen of a pod.
func (w *world) history(uid types.UID) observe.Pod {
	for _, p := range w.pods() {
		if p.Object.UID == uid {
			return p
		}
	}
	return observe.Pod{Object: &corev1.Pod{}}
}

// others are the pods of the test that slipway was asked for.
func (w *world) others() []observe.Pod {
	var out []observe.Pod
	for _, p := range w.pods() {
		if p.Object.Spec.SchedulerName != "careless" {
			out = append(out, p)
		}
	}
	return out
}

func gpu(s *corev1.PodSpec) {
	s.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
}

// R1: a pod that asks for a device and is bound before the device plugin has registered runs without the device.
func TestR1RunsWithoutItsDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r1")
	boot := w.hold("r1")
	w.pool("r1", func(p *karpv1.NodePool) { require(p, "karpenter.k8s.aws/instance-category", "g") })
	w.deployment("train", 1, w.podSpec("1", "1Gi", gpu))
	careless := w.carelessPod(w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) {
		gpu(s)
		s.HostNetwork = true
		s.Containers[0].Image = "registry.example/pause:1"
	}))
	w.bindAtLaunch(careless, "r1")
	boot()
	w.awaitRunning(2)
	if !slices.ContainsFunc(w.history(careless.UID).Object.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == sim.WithoutDevicesCondition && c.Status == corev1.ConditionTrue
	}) {
		t.Error("the careless pod runs with its device: nothing is shown")
	}
	for _, p := range w.others() {
		if node := w.node(p.Object.Spec.NodeName); !node.Ready.Before(p.Bound) || node.Object.Status.Allocatable.Name("nvidia.com/gpu", resource.DecimalSI).IsZero() {
			t.Errorf("pod %s was bound before its node %s showed a GPU", p.Object.Name, node.Object.Name)
		}
	}
}

// R3: a pod that is bound under a NoExecute taint is evicted at once, and its replacement launches another node.
func TestR3EvictedUnderAStartupTaint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r3")
	agent := corev1.Taint{Key: "e2e.slipway.dev/agent-not-ready", Effect: corev1.TaintEffectNoExecute}
	w.pool("r3", func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Template.Spec.StartupTaints = []corev1.Taint{agent}
	})
	w.deployment("web", 1, w.podSpec("500m", "256Mi", nil))
	w.deployment("host", 1, w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) { s.HostNetwork = true }))
	careless := w.carelessPod(w.podSpec("100m", "64Mi", nil))
	name := w.bindAtLaunch(careless, "r3")
	w.await(t, "the careless pod to be evicted", func() bool {
		p := w.history(careless.UID)
		return p.Terminating.Seen() || p.Deleted.Seen()
	})
	w.await(t, "a node that is ready", func() bool { return w.node(name).Untainted.Seen() })
	for _, p := range w.others() {
		if p.Bound.Seen() {
			t.Errorf("pod %s was bound under taint %s", p.Object.Name, agent.Key)
		}
	}
	// The agent has started.
	err := w.patchNode(name, func(n *corev1.Node) {
		kept := n.Spec.Taints[:0]
		for _, taint := range n.Spec.Taints {
			if !taint.MatchTaint(&agent) {
				kept = append(kept, taint)
			}
		}
		n.Spec.Taints = kept
	})
	if err != nil {
		t.Fatal(err)
	}
	// From now on a pod may be bound, and may be evicted once more: kube-controller-manager watches Nodes and pods apart, and where it
	// is told of the binding first, the taint is still there for it, whoever binds. That costs no node.
	w.awaitRunning(2)
	if n := len(w.everClaimed("r3")); n != 1 {
		t.Errorf("%d nodes for pods that fit one", n)
	}
}

// patchNode changes a Node, again where others do at the same time.
func (w *world) patchNode(name string, change func(*corev1.Node)) error {
	for {
		node := &corev1.Node{}
		if err := w.client.Get(w.t.Context(), keyOf(name), node); err != nil {
			return err
		}
		before := node.DeepCopy()
		change(node)
		err := w.client.Patch(w.t.Context(), node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// R6: two binders. The second one is told that the pod is assigned already; slipway takes that for an answer, binds nothing twice,
// and its node serves others.
func TestR6BoundElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r6")
	w.pool("r6", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	web := w.deployment("web", 1, w.podSpec("1500m", "256Mi", nil))
	w.awaitRunning(1)
	first := w.others()[0]
	boot := w.hold("r6")
	w.scale(web, 2)
	w.await(t, "a second Node", func() bool { return len(w.claimsOf("r6")) == 2 && nodesOf(w, "r6") == 2 })
	for _, p := range w.others() {
		if p.Object.UID == first.Object.UID {
			continue
		}
		// Somebody else is faster; and whoever comes second has lost.
		if err := w.bindTo(p.Object, first.Object.Spec.NodeName); err != nil {
			t.Fatal(err)
		}
		if err := w.bindTo(p.Object, "another"); !apierrors.IsConflict(err) {
			t.Errorf("a second binding was answered with %v", err)
		}
	}
	boot()
	w.await(t, "both nodes to be initialized", func() bool {
		n := 0
		for _, c := range w.claimsOf("r6") {
			if c.Initialized.Seen() {
				n++
			}
		}
		return n == 2
	})
	for _, reason := range []string{"NotPreBound", "FailedBinding"} {
		if events := w.events(reason); len(events) != 0 {
			t.Errorf("Event %s: %s", reason, events[0].Message)
		}
	}
	if n := len(w.everClaimed("r6")); n > 3 {
		t.Errorf("%d NodeClaims for two pods", n)
	}
}

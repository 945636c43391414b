package kubelets_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// stopsIn is how long the containers of the smoke test take to stop.
const stopsIn = 5 * time.Second

// Pods run in containers of kubelets that know nothing of slipway, whoever bound them: before the boot, at Ready, or the
// scheduler; then their node is deleted, and they run on another one without a PodDisruptionBudget broken or a container
// killed. It is the part of the suite that every change passes.
func TestSmoke(t *testing.T) {
	w := newWorld(t, "smoke")
	w.pool("smoke", nil)
	// Its room is kept, although it comes after the pods were bound that would fill the node.
	w.daemonSet("daemon", w.spec("500m", 0, nil))
	w.deployment("edge", 1, w.spec("100m", 0, func(s *corev1.PodSpec) { s.HostNetwork = true }))
	w.deployment("web", 3, w.spec("900m", stopsIn, nil))
	w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "alone"}, Spec: w.spec("100m", 0, nil)})
	w.await(t, "all pods to run", func() bool {
		return w.running("web") == 3 && w.running("edge") == 1 && w.running("alone") == 1 && w.running("daemon") == len(w.claims("smoke"))
	})
	w.noneFailed("")
	for _, c := range w.claims("smoke") {
		checkNode(t, w.nodes(c.Object.Status.NodeName))
	}
	t.Run("bound at launch", func(t *testing.T) { checkBound(t, w, "edge", before(ready)) })
	t.Run("bound at Ready", func(t *testing.T) { checkBound(t, w, "web", after(ready), before(untainted)) })
	t.Run("DaemonSets come first", func(t *testing.T) { checkDaemons(t, w) })
	t.Run("bound by the scheduler", func(t *testing.T) { checkBound(t, w, "alone", after(untainted)) })
	t.Run("node deletion", func(t *testing.T) { deleteNode(t, w, stopsIn) })
}

// checkDaemons holds that what gives a node its network had started before the pods that the launcher bound were, as far as the kubelet tells,
// which may tell Ready before it tells what runs; and that the DaemonSet that tolerates less found its room.
func checkDaemons(t *testing.T, w *world) {
	t.Helper()
	agents := slices.DeleteFunc(w.recorder.Pods(), func(p observe.Pod) bool { return !strings.HasPrefix(p.Object.Name, "network-") })
	for _, p := range w.pods("web") {
		agent := onNode(agents, p.Object.Spec.NodeName)
		if agent == nil || !startedBy(agent.Object, p.Bound.At) {
			t.Errorf("pod %s was bound at %v, before its node's network agent had started: %+v", p.Object.Name, p.Bound, agent)
		}
		if daemon := onNode(w.pods("daemon"), p.Object.Spec.NodeName); daemon == nil || !daemon.Running.Seen() {
			t.Errorf("the DaemonSet does not run beside pod %s: %+v", p.Object.Name, daemon)
		}
	}
}

// startedBy says that all containers of the pod had started by then, by the kubelet's clock, which is the test's.
func startedBy(p *corev1.Pod, at time.Time) bool {
	return len(p.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running == nil || c.State.Running.StartedAt.After(at)
	})
}

// The moments of a node that bindings are compared with.
func ready(n *observe.Node) observe.Moment     { return n.Ready }
func untainted(n *observe.Node) observe.Moment { return n.Untainted }

// rule says what a binding is to a node.
type rule func(bound observe.Moment, n *observe.Node) bool

func before(of func(*observe.Node) observe.Moment) rule {
	return func(bound observe.Moment, n *observe.Node) bool { return bound.Before(of(n)) }
}

func after(of func(*observe.Node) observe.Moment) rule {
	return func(bound observe.Moment, n *observe.Node) bool { return of(n).Before(bound) }
}

func checkBound(t *testing.T, w *world, prefix string, rules ...rule) {
	t.Helper()
	for _, p := range w.pods(prefix) {
		n := w.node(p.Object.Spec.NodeName)
		for i, holds := range rules {
			if n == nil || !holds(p.Bound, n) {
				t.Errorf("pod %s was bound at %v, rule %d does not hold for node %+v", p.Object.Name, p.Bound, i, n)
			}
		}
	}
}

// nodes are the Nodes that had a name, one after the other.
func (c *cluster) nodes(name string) []observe.Node {
	var out []observe.Node
	for _, n := range c.recorder.Nodes() {
		if n.Object.Name == name {
			out = append(out, n)
		}
	}
	return out
}

// checkNode holds that the kubelet adopted the Node that was made for it, and says of it what EC2 sold.
func checkNode(t *testing.T, nodes []observe.Node) {
	t.Helper()
	if len(nodes) != 1 {
		t.Fatalf("%d Nodes of one name, one after the other", len(nodes))
	}
	n := nodes[0]
	if !n.Created.Before(n.Joined) {
		t.Errorf("node %s was created by its kubelet", n.Object.Name)
	}
	info := n.Object.Status.NodeInfo
	if !strings.HasPrefix(info.KubeletVersion, "v1.36.") || !strings.HasPrefix(info.ContainerRuntimeVersion, "containerd://") {
		t.Errorf("node %s has kubelet %q with %q", n.Object.Name, info.KubeletVersion, info.ContainerRuntimeVersion)
	}
	if got := n.Object.Status.Capacity.Cpu().Value(); got != 4 {
		t.Errorf("node %s has %d CPUs", n.Object.Name, got)
	}
	if n.Object.Labels[worldKey] == "" || n.Object.Spec.ProviderID == "" {
		t.Errorf("node %s has labels %v and providerID %q", n.Object.Name, n.Object.Labels, n.Object.Spec.ProviderID)
	}
}

// deleteNode is kubectl delete node, of the first node with a pod of Deployment web, whose containers take a while to stop.
func deleteNode(t *testing.T, w *world, stops time.Duration) {
	t.Helper()
	w.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &intstr.IntOrString{IntVal: 1}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	})
	w.awaitBudget("web")
	moved := w.pods("web")
	all := w.running("web")
	node := w.node(moved[0].Object.Spec.NodeName).Object
	claim := w.claimOf(node.Name)
	if err := w.client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	lowest := all
	w.await(t, "the node to be drained and gone", func() bool {
		lowest = min(lowest, w.running("web"))
		return w.gone(claim) && w.left(node.Name) && w.running("web") == all
	})
	if lowest < all-1 {
		t.Errorf("%d pods ran at one time, the PodDisruptionBudget allows one to be away", lowest)
	}
	w.noneFailed("web")
	stopped := 0
	for _, p := range w.pods("web") {
		if p.Object.Spec.NodeName != node.Name {
			continue
		}
		stopped++
		// The container sleeps that long before it ends: whoever is gone before was killed.
		if took := p.Deleted.At.Sub(p.Terminating.At); took < stops-time.Second {
			t.Errorf("pod %s was gone after %s, its container takes %s to stop", p.Object.Name, took, stops)
		}
	}
	if stopped == 0 {
		t.Error("no pod was moved")
	}
}

// left says whether all pods of the test's that ran on a node are gone.
func (w *world) left(node string) bool {
	return !slices.ContainsFunc(w.pods(""), func(p observe.Pod) bool { return p.Object.Spec.NodeName == node && !p.Deleted.Seen() })
}

// awaitBudget waits until the disruption controller has looked at the pods.
func (w *world) awaitBudget(name string) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		pdb := &policyv1.PodDisruptionBudget{}
		err := w.client.Get(ctx, keyOf(w.name, name), pdb)
		return err == nil && pdb.Status.DisruptionsAllowed == 1, err
	})
	if err != nil {
		w.t.Fatalf("PodDisruptionBudget %s does not know its pods: %v", name, err)
	}
}

// claimOf is the NodeClaim of a node that exists.
func (w *world) claimOf(node string) observe.Claim {
	w.t.Helper()
	for _, c := range w.recorder.Claims() {
		if !c.Deleted.Seen() && c.Object.Status.NodeName == node {
			return c
		}
	}
	w.t.Fatalf("node %s has no NodeClaim", node)
	return observe.Claim{}
}

package plugin_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// ready reports that the node of a claim is Ready, and not initialized, and which pods were bound to it.
func (l *testLauncher) ready(name, nodeName string, bound ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.inFlight[name]
	n := &api.InFlightNode{
		NodeClaim: name, NodeName: nodeName, NodePool: old.GetNodePool(), Phase: api.Phase_PHASE_READY, Started: true, Labels: old.GetLabels(),
		Allocatable: old.GetAllocatable(), Pods: old.GetPods(), InstanceType: old.GetInstanceType(), Zone: old.GetZone(), CapacityType: old.GetCapacityType(), BoundPods: bound,
	}
	l.inFlight[name] = n
	l.publish(func() *api.CatalogUpdate { return &api.CatalogUpdate{InFlight: []*api.InFlightNode{n}} })
}

// notReady is what kube-controller-manager puts onto a node that is not Ready, and takes away up to five seconds late.
func notReady() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
}

// A pod that is left to the scheduler does not wait until its node is initialized where the scheduler would place it before.
func TestReadyNodeTakesItsPods(t *testing.T) {
	t.Parallel()
	for name, args := range hooksOnAndOff() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{args: args, objects: []runtime.Object{newNode("full", "100m", nil)}})
			tolerates := func(seconds int64) func(*corev1.Pod) {
				return func(p *corev1.Pod) {
					ownedBy("web")(p)
					p.Spec.Tolerations = []corev1.Toleration{{
						Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
					}}
				}
			}
			h.replicaSet("web", 3)
			h.pod("web-0", tolerates(300))
			h.pod("web-1", tolerates(300))
			h.pod("web-short", tolerates(5))
			h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 3 })
			claims := h.launcher.claims()
			var nodes []*corev1.Node
			for _, c := range claims {
				node := newNode("ip-"+c.GetName(), "15890m", map[string]string{"karpenter.sh/nodepool": "default"}, starting(), notReady())
				h.createNode(node)
				h.launcher.ready(c.GetName(), node.Name)
				nodes = append(nodes, node)
			}
			h.eventually("the nodes to be seen", func() bool { return len(h.sched.Cache.Dump().Nodes) == 1+len(nodes) })
			if n := h.bound(); n != 0 {
				t.Fatalf("%d pods were bound while their node had its startup taint", n)
			}
			for i, n := range nodes {
				nodes[i] = n.DeepCopy()
				nodes[i].Spec.Taints = []corev1.Taint{notReady()}
				h.updateNode(nodes[i])
			}
			h.eventually("the pods that tolerate the taint to be bound", func() bool {
				return h.nodeOf("web-0") != "" && h.nodeOf("web-1") != ""
			})
			if node := h.nodeOf("web-short"); node != "" {
				t.Errorf("the pod that would be evicted after five seconds was bound to %s", node)
			}
			for i, c := range claims {
				nodes[i] = initialized(nodes[i])
				h.updateNode(nodes[i])
				h.launcher.end(c.GetName(), nodes[i].Name, api.Outcome_OUTCOME_INITIALIZED)
			}
			h.eventually("the last pod to be bound", func() bool { return h.nodeOf("web-short") != "" })
			if n := len(h.launcher.claims()); n != len(claims) {
				t.Errorf("%d more claims were launched for pods that had their nodes", n-len(claims))
			}
		})
	}
}

// starting creates pod web-0 and the Node, with so much CPU, that is launched for it, which is Ready and has its startup taint still. bound says that the
// launcher has bound the pod, which the scheduler has not seen.
func (h *harness) starting(cpu string, bound bool) (*api.Claim, *corev1.Node) {
	h.t.Helper()
	h.replicaSet("web", 1)
	h.pod("web-0", ownedBy("web"))
	h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 1 })
	claim := h.launcher.claims()[0]
	node := ownedNode("ip-"+claim.GetName(), cpu, claim.GetName(), starting())
	node.Labels["karpenter.sh/capacity-type"] = claim.GetExpected().GetCapacityType()
	h.createNode(node)
	var pods []string
	if bound {
		pods = append(pods, claim.GetPods()[0].GetUid())
	}
	h.launcher.ready(claim.GetName(), node.Name, pods...)
	return claim, node
}

// joined is starting, and has the Node take pods.
func (h *harness) joined(cpu string, bound bool) (*api.Claim, *corev1.Node) {
	h.t.Helper()
	claim, node := h.starting(cpu, bound)
	node = initialized(node)
	h.updateNode(node)
	return claim, node
}

// The launcher binds pods before their node takes others. Where the scheduler sees that late, it neither tries them again nor gives their room to others.
func TestBoundPodsKeepTheirRoomUntilTheyAreSeen(t *testing.T) {
	t.Parallel()
	for _, initialized := range []bool{false, true} {
		t.Run(fmt.Sprintf("initialized %t", initialized), func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
			claim, node := h.joined("500m", true)
			if initialized {
				h.launcher.end(claim.GetName(), node.Name, api.Outcome_OUTCOME_INITIALIZED)
				h.pod("other", nil)
				h.eventually("another pod to have a node of its own", func() bool { return h.launcher.podNames()["other"] > 0 })
				if n := h.metric("slipway_planned_pods_total", "existing"); n != 0 {
					t.Errorf("the other pod was planned %v times to go where the first is", n)
				}
			}
			for end := time.Now().Add(2 * time.Second); h.bound() == 0 && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			if h.bound() != 0 {
				t.Error("the scheduler bound a pod to the room of one that the launcher had bound")
			}
			bound, err := h.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "web-0", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			bound.Spec.NodeName = node.Name
			if _, err := h.client.CoreV1().Pods(metav1.NamespaceDefault).Update(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			h.eventually("its promise to end", func() bool { return h.metric("slipway_promised_pods", "") == float64(len(h.launcher.podNames())-1) })
		})
	}
}

// The launcher and the scheduler may bind a pod at the same moment. The one that the API server refuses must not give the pod's room to others before it
// has seen where the pod is.
func TestRefusedBindingKeepsTheRoom(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	var refused atomic.Int32
	h.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := action.(clienttesting.CreateAction); ok && action.GetSubresource() == "binding" && create.GetObject().(*corev1.Binding).Name == "web-0" {
			refused.Add(1)
			return true, nil, apierrors.NewConflict(corev1.Resource("pods/binding"), "web-0", errors.New("it is already assigned to a node"))
		}
		return false, nil, nil
	})
	h.joined("15890m", false)
	h.eventually("the scheduler to be refused", func() bool { return refused.Load() > 0 })
	h.asks("other", 15600, nil)
	h.eventually("another pod to have a node of its own", func() bool { return h.launcher.podNames()["other"] > 0 })
	h.eventually("the scheduler to be refused again", func() bool { return refused.Load() > 2 })
	if node := h.nodeOf("other"); node != "" {
		t.Errorf("the other pod was bound to %s", node)
	}
}

// The launcher may report that a node is initialized before the scheduler's cache shows that taints of its start are gone. Until then its pods are neither
// tried, nor is anything launched again for them or for others that have room there.
func TestInitializedNodeIsAwaitedInTheCache(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"label shown, taint too": "true", "label not shown": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
			h.replicaSet("web", 1)
			h.pod("web-0", ownedBy("web"))
			h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 1 })
			claim := h.launcher.claims()[0]
			node := ownedNode("ip-"+claim.GetName(), "15890m", claim.GetName(), notReady())
			node.Labels["karpenter.sh/initialized"] = label
			h.createNode(node)
			h.launcher.end(claim.GetName(), node.Name, api.Outcome_OUTCOME_INITIALIZED)
			h.pod("other", nil)
			h.eventually("the other pod's place", func() bool {
				return h.metric("slipway_planned_pods_total", "in_flight") > 0 || len(h.launcher.claims()) > 1
			})
			time.Sleep(time.Second)
			h.updateNode(initialized(node))
			h.eventually("the pods to be bound", func() bool {
				return h.nodeOf("web-0") == node.Name && h.nodeOf("other") == node.Name || len(h.launcher.claims()) > 1
			})
			if n := len(h.launcher.claims()); n != 1 {
				t.Errorf("%d NodeClaims were launched for pods that have room on one", n)
			}
		})
	}
}

// Where the scheduler keeps pods off a node, and plans see room there, a pod is planned to go there twice at most: then it gets a node. Plans look at nodes that
// have just joined, and with a minimum on-demand share at all nodes.
func TestPlansEndWhereTheSchedulerDisagrees(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{"young node": 0, "any node": 0.01} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{
				objects: []runtime.Object{newNode("full", "100m", nil), agent()},
				prepare: func(l *testLauncher) { l.pools[0].OnDemandShare = share },
			})
			claim, node := h.joined("1", false)
			h.launcher.end(claim.GetName(), node.Name, api.Outcome_OUTCOME_INITIALIZED)
			h.eventually("the pod to be bound", func() bool { return h.nodeOf("web-0") != "" })
			h.asks("other", 300, nil)
			h.eventually("another pod to have a node of its own", func() bool { return h.launcher.podNames()["other"] > 0 })
			if n := h.metric("slipway_planned_pods_total", "existing"); n == 0 || n > 2 {
				t.Errorf("the pod was planned %v times to take the room that is kept for a DaemonSet's pod, want 1 or 2", n)
			}
		})
	}
}

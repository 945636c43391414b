package plugin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// ready reports that the node of a claim is Ready, and not initialized.
func (l *testLauncher) ready(name, nodeName string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.inFlight[name]
	n := &api.InFlightNode{
		NodeClaim: name, NodeName: nodeName, NodePool: old.GetNodePool(), Phase: api.Phase_PHASE_READY, Labels: old.GetLabels(),
		Allocatable: old.GetAllocatable(), Pods: old.GetPods(), InstanceType: old.GetInstanceType(), Zone: old.GetZone(), CapacityType: old.GetCapacityType(),
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
				nodes[i] = nodes[i].DeepCopy()
				nodes[i].Spec.Taints = nil
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

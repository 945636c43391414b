package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// sharing are pods of a ReplicaSet with a minimum on-demand share.
func sharing(set, share string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		ownedBy(set)(p)
		p.Annotations = map[string]string{catalog.OnDemandShareAnnotation: share}
	}
}

func nodeOf(name, capacityType string) *corev1.Node {
	return newNode(name, "16", map[string]string{"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": capacityType})
}

// countOn counts the pods of a ReplicaSet that are bound to the node.
func (h *harness) countOn(set, node string) int {
	h.t.Helper()
	list, err := h.client.CoreV1().Pods("default").List(h.ctx, metav1.ListOptions{LabelSelector: "app=" + set})
	if err != nil {
		h.t.Fatal(err)
	}
	n := 0
	for _, p := range list.Items {
		if p.Spec.NodeName == node {
			n++
		}
	}
	return n
}

// The scheduler itself keeps to the share on nodes that exist: a spot node with room for all gets no more pods than the share allows,
// however they come, and the others take the on-demand node.
func TestSchedulerKeepsOnDemandShare(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{nodeOf("spot", "spot"), nodeOf("steady", "on-demand")}})
	h.replicaSet("web", 10)
	for i := range 10 {
		h.pod(fmt.Sprint("web-", i), sharing("web", "80%"))
	}
	h.eventually("all pods to be bound", func() bool { return h.bound() == 10 })
	if n := h.countOn("web", "spot"); n > 2 {
		t.Errorf("%d of 10 pods are on spot, 2 are allowed", n)
	}
}

// A plan launches what the share demands on demand, fills the spot node that exists with the others, and says why a pod is kept off.
func TestPlanKeepsOnDemandShare(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{nodeOf("spot", "spot")}})
	h.replicaSet("web", 10)
	for i := range 10 {
		h.pod(fmt.Sprint("web-", i), sharing("web", "40%"))
	}
	h.eventually("the pods that may be on spot to be bound", func() bool { return h.countOn("web", "spot") == 6 })
	promised := 0
	for _, req := range h.launcher.requests() {
		for _, c := range req.GetClaims() {
			if c.GetExpected().GetCapacityType() != "on-demand" {
				t.Errorf("NodeClaim %s is %s", c.GetName(), c.GetExpected())
			}
			promised += len(c.GetPods())
		}
	}
	if promised != 4 {
		t.Errorf("%d pods are promised on-demand nodes, want 4", promised)
	}
}

// A NodePool's share holds for pods without one: a pod without siblings waits for an on-demand node though a spot node has room.
func TestSchedulerKeepsShareOfNodePool(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{nodeOf("spot", "spot")},
		prepare: func(l *testLauncher) { l.pools[0].OnDemandShare = 0.2 },
	})
	h.replicaSet("solo", 1)
	h.pod("solo-0", ownedBy("solo"))
	h.eventually("a launch", func() bool { return h.launcher.podNames()["solo-0"] == 1 })
	if got := h.launcher.requests()[0].GetClaims()[0].GetExpected().GetCapacityType(); got != "on-demand" {
		t.Errorf("launched %s", got)
	}
	h.replicaSet("bad", 1)
	h.pod("bad-0", sharing("bad", "lots"))
	h.eventually("the Event about the annotation", func() bool {
		select {
		case e := <-h.recorder.Events:
			return strings.Contains(e, "InvalidAnnotation") && strings.Contains(e, `"lots": a percentage from 0 to 100 is expected`)
		default:
			return false
		}
	})
	if h.bound() != 0 {
		t.Error("the pod is bound to the spot node")
	}
}

// setShare replaces the share of the NodePool, which is an annotation: the NodePool's generation stays.
func (l *testLauncher) setShare(share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pool := proto.CloneOf(l.pools[0])
	pool.OnDemandShare = share
	l.pools = []*api.NodePool{pool}
	l.publish(func() *api.CatalogUpdate { return &api.CatalogUpdate{NodePools: l.pools} })
}

// A pod that a share kept off a spot node takes it when the share goes, and no node is launched for it.
func TestLowerShareFreesSpotNodes(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{nodeOf("spot", "spot")},
		prepare: func(l *testLauncher) { l.pools[0].OnDemandShare, l.pools[0].Ready = 1, false },
	})
	h.replicaSet("web", 1)
	h.pod("web-0", ownedBy("web"))
	h.eventually("the pod's reason", func() bool { return strings.Contains(h.message("web-0"), "on-demand share") })
	h.launcher.setShare(0)
	// Without an event of its own the pod would wait for kube-scheduler's next look at unschedulable pods, which is after five minutes.
	h.eventually("the pod to be bound", func() bool { return h.nodeOf("web-0") == "spot" })
}

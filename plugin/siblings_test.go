package plugin_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// spreadOverZones creates pods with a topology spread over zones and waits for their nodes, which it creates with their startup taints. Each has two pods. It
// returns the NodeClaims and nodes by zone.
func (h *harness) spreadOverZones(pods int) (claims map[string]*api.Claim, nodes map[string]*corev1.Node) {
	h.t.Helper()
	h.replicaSet("web", pods)
	for i := range pods {
		h.pod(fmt.Sprintf("web-%d", i), func(p *corev1.Pod) {
			ownedBy("web")(p)
			p.Labels = map[string]string{"app": "web"}
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}}
		})
	}
	h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == pods })
	claims, nodes = map[string]*api.Claim{}, map[string]*corev1.Node{}
	for _, claim := range h.launcher.claims() {
		zone := claim.GetExpected().GetZone()
		node := ownedNode("ip-"+claim.GetName(), "15890m", claim.GetName(), starting())
		node.Labels[corev1.LabelTopologyZone] = zone
		node.Labels["karpenter.sh/capacity-type"] = claim.GetExpected().GetCapacityType()
		h.createNode(node)
		claims[zone], nodes[zone] = claim, node
	}
	h.eventually("the nodes to be seen", func() bool { return len(h.sched.Cache.Dump().Nodes) == 1+len(nodes) })
	return claims, nodes
}

// join has a node initialized.
func (h *harness) join(claim *api.Claim, node *corev1.Node) {
	h.t.Helper()
	h.updateNode(initialized(node))
	h.launcher.end(claim.GetName(), node.Name, api.Outcome_OUTCOME_INITIALIZED)
}

// A plan spreads pods over zones, of which one has its node first. The scheduler refuses the second pod there until another zone has one: the pod waits for that,
// and has no other node launched.
func TestPodsWaitForOthersOfTheirPlan(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	claims, nodes := h.spreadOverZones(6)
	if len(claims) < 2 || len(claims) != len(h.launcher.claims()) {
		t.Fatalf("%d claims in %d zones", len(h.launcher.claims()), len(claims))
	}
	zones := slices.Sorted(maps.Keys(claims))
	first, others := zones[0], zones[1:]
	h.join(claims[first], nodes[first])
	h.eventually("one pod to be bound", func() bool { return h.bound() == 1 })
	h.eventually("its promise to end", func() bool { return h.metric("slipway_promised_pods", "") == 5 })
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got := h.metric("slipway_promised_pods", ""); got != 5 {
			t.Fatalf("%v pods are promised a node, want 5", got)
		}
	}
	h.launcher.reconnect() // Which no longer shows the node that is initialized.
	for _, zone := range others {
		h.join(claims[zone], nodes[zone])
	}
	h.eventually("all pods to be bound", func() bool { return h.bound() == 6 })
	if n := len(h.launcher.claims()); n != len(claims) {
		t.Errorf("%d more claims were launched", n-len(claims))
	}
}

// Where the others do not come, a pod does not wait for them: its promise ends, and it is planned again.
func TestPodsDoNotWaitForOthersThatDoNotCome(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	claims, nodes := h.spreadOverZones(6)
	first := slices.Max(slices.Collect(maps.Keys(claims))) // Not the zone of the node that is there.
	h.join(claims[first], nodes[first])
	h.eventually("one pod to be bound", func() bool { return h.bound() == 1 })
	for zone, claim := range claims {
		if zone != first {
			for _, pod := range claim.GetPods() {
				if err := h.client.CoreV1().Pods("default").Delete(h.ctx, pod.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			h.launcher.end(claim.GetName(), nodes[zone].Name, api.Outcome_OUTCOME_DELETED)
			if err := h.client.CoreV1().Nodes().Delete(h.ctx, nodes[zone].Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := time.Now()
	h.eventually("the pod's promise to end", func() bool { return h.metric("slipway_promised_pods", "") == 0 })
	if took := time.Since(begin); took >= 50*time.Second {
		t.Errorf("it took %s, which is when any promise on an initialized node ends", took)
	}
}

package simulate

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// A move of three nodes to two is called off on its way. What was launched for it is what the next decision, a minute later, moves the
// pods to, with one move for each node that goes, and nothing is bought twice. Then the fleet is where the first move was to bring it, and
// at rest.
func TestCalledOffMoveIsNotPaidTwice(t *testing.T) {
	for _, c := range []struct {
		when string
		// joined and boots are how many of the two new nodes have joined and boot. Others were not launched, or failed.
		joined, boots int
		// left says that one of the three nodes has left meanwhile, and its pods have their new place.
		left bool
		// moves of the next decision, and how many nodes they buy.
		moves, bought int
	}{
		{when: "nothing is launched", moves: 1, bought: 2},
		{when: "both boot", boots: 2, moves: 3},
		{when: "one has joined", joined: 1, boots: 1, moves: 3},
		{when: "one has joined and the other has failed", joined: 1, moves: 1, bought: 1},
		{when: "one boots and the other has failed", boots: 1, moves: 1, bought: 1},
		{when: "both have joined", joined: 2, moves: 3},
		{when: "one node has left for another reason", joined: 2, left: true, moves: 2},
	} {
		t.Run(c.when, func(t *testing.T) {
			h := threeNodes(t)
			first := h.decide()
			if len(first) != 1 || len(first[0].Nodes) != 3 || len(first[0].Replacements) != 2 {
				t.Fatalf("decided %+v, want one move of three nodes to two", first)
			}
			aim := h.bill() - first[0].Saving
			launched := h.buy(first[0])[:c.joined+c.boots]
			h.joins(launched[:c.joined]...)
			h.boots(launched[c.joined:]...)
			if c.left {
				h.leaves(first[0])
			}
			before := len(h.bought)
			moves := h.decide()
			h.joins(launched[c.joined:]...)
			h.apply(moves)
			if got := len(h.bought) - before; len(moves) != c.moves || got != c.bought {
				t.Errorf("then there are %d moves that buy %d nodes, want %d that buy %d: %+v", len(moves), got, c.moves, c.bought, moves)
			}
			if again := h.decide(); len(again) != 0 || math.Abs(h.bill()-aim) > 1e-9 {
				t.Errorf("then the bill is %v, was to be %v; and there is %+v", h.bill(), aim, again)
			}
			// By then the new nodes are no longer left alone.
			h.now = h.now.Add(20 * time.Minute)
			if again := h.decide(); len(again) != 0 {
				t.Errorf("a fleet at rest moves again: %+v", again)
			}
			if often := most(h.evictions); often > 1 {
				t.Errorf("a pod was evicted %d times", often)
			}
		})
	}
}

// threeNodes have two pods each, all of which would fit two smaller and cheaper nodes, but no two of the nodes that there are.
func threeNodes(t *testing.T) *churn {
	t.Helper()
	h := &churn{t: t, rng: rand.New(rand.NewPCG(1, 1)), evictions: map[string]int{}, bought: map[string]bool{}, now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	m, r := testMarket(t), input.NewReader()
	if err := r.Read("pool.yaml", fmt.Appendf(nil, churnPool, "WhenEmptyOrUnderutilized", "100%", "on-demand")); err != nil {
		t.Fatal(err)
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2500m"), corev1.ResourceMemory: resource.MustParse("14Gi"), corev1.ResourcePods: resource.MustParse("29"),
	}
	for i := range 3 {
		name := fmt.Sprint("old", i)
		r.Add(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(h.now.Add(-24 * time.Hour)), Labels: map[string]string{
				karpv1.NodePoolLabelKey: "default", corev1.LabelInstanceTypeStable: "m5.xlarge", corev1.LabelTopologyZone: "us-east-1a",
				karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
			}},
			Status: corev1.NodeStatus{
				Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
		for j := range 2 {
			pod := h.pod(name, j, 600)
			pod.Spec.TopologySpreadConstraints, pod.Annotations = nil, nil
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
			r.Add(pod)
		}
	}
	objects := r.Finish()
	cat, _ := m.Catalog(t.Context(), objects)
	h.c = &cluster{objects: objects, cat: cat, shapes: map[string]int{}}
	return h
}

// decide what moves, a minute later.
func (h *churn) decide() []consolidate.Move {
	h.t.Helper()
	h.now = h.now.Add(time.Minute)
	o := consolidate.DefaultOptions()
	o.Allowed, _ = observe(h.c.objects, h.now).allowances(h.c.objects.NodePools)
	d, err := consolidate.Decide(h.t.Context(), observe(h.c.objects, h.now).fleet(h.c.cat, podAge), o, h.c.ask)
	if err != nil {
		h.t.Fatal(err)
	}
	return d.Moves
}

// joins has nodes be there, which do not boot any more: launched for the pods of the three, they are kept for these for a while.
func (h *churn) joins(nodes ...*corev1.Node) {
	after := *h.c.objects
	after.Nodes = append(slices.Clone(after.Nodes), nodes...)
	after.NodeClaims = slices.Clone(after.NodeClaims)
	for _, n := range nodes {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, UID: types.UID(n.Name), Labels: n.Labels, Annotations: map[string]string{catalog.ReplacesAnnotation: "old0,old1,old2"},
		}}
		claim.Status.NodeName = n.Name
		set(claim, karpv1.ConditionTypeInitialized, metav1.NewTime(h.now))
		set(claim, karpv1.ConditionTypeConsolidatable, metav1.NewTime(h.now))
		after.NodeClaims = append(after.NodeClaims, claim)
	}
	h.c.objects = &after
	h.inFlight(func(of map[string]catalog.InFlightNode) {
		for _, n := range nodes {
			delete(of, n.Name)
		}
	})
}

// boots has nodes be on their way, meant for the pods of the three.
func (h *churn) boots(nodes ...*corev1.Node) {
	h.inFlight(func(of map[string]catalog.InFlightNode) {
		for _, n := range nodes {
			of[n.Name] = catalog.InFlightNode{
				NodeClaim: n.Name, NodePool: "default", Phase: catalog.PhaseRecorded, Labels: n.Labels, Allocatable: n.Status.Allocatable, Replaces: []string{"old0", "old1", "old2"},
				InstanceType: n.Labels[corev1.LabelInstanceTypeStable], Zone: n.Labels[corev1.LabelTopologyZone], CapacityType: n.Labels[karpv1.CapacityTypeLabelKey],
			}
		}
	})
}

func (h *churn) inFlight(change func(map[string]catalog.InFlightNode)) {
	h.c.cat.Generation++
	h.c.cat.InFlight = maps.Clone(h.c.cat.InFlight)
	change(h.c.cat.InFlight)
}

// leaves has the first node of a move be gone, its pods where the move wanted them.
func (h *churn) leaves(m consolidate.Move) {
	part := consolidate.Move{Nodes: m.Nodes[:1], Targets: map[string]string{}}
	for _, p := range part.Nodes[0].Pods {
		part.Targets[p.Name] = m.Targets[p.Name]
	}
	h.apply([]consolidate.Move{part})
}

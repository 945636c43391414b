package consolidate_test

import (
	"context"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

func requesting(cpu string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}}}}
}

// priced is a catalog of one zone. Nodes of NodePool thrifty use half of the CPU that they request.
func priced() catalog.State {
	types := func(name string, price float64, charges catalog.Charges) []catalog.InstanceType {
		return []catalog.InstanceType{{Name: name, Charges: charges, Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", Price: price}}}}
	}
	burstable := catalog.Charges{BaselineCPU: 400, SurplusCPU: 0.05}
	return catalog.State{
		NodePools: map[string]catalog.NodePool{
			"p":       {Name: "p", NodeClass: "large-disks", Declared: catalog.Declared{NodeCost: 0.5}},
			"thrifty": {Name: "thrifty", NodeClass: "large-disks", Declared: catalog.Declared{IdleCPU: 0.5}},
		},
		InstanceTypes: map[string][]catalog.InstanceType{
			"a-class":     append(types("m", 1, catalog.Charges{}), types("old", 3, catalog.Charges{})...),
			"large-disks": append(types("m", 2, catalog.Charges{}), types("t3.large", 0.1, burstable)...),
		},
	}
}

// A node costs what its NodePool's class and declared cost make of its offering, and what its pods request beyond the baseline. A node of a class
// that no longer offers it costs what another class says.
func TestSetPrice(t *testing.T) {
	for _, tc := range []struct {
		pool, instanceType string
		want               float64
	}{{"p", "m", 2.5}, {"p", "old", 3.5}, {"p", "none", 0}, {"other", "m", 1}, {"p", "t3.large", 0.6 + 0.6*0.05}, {"thrifty", "t3.large", 0.1 + 0.1*0.05}} {
		n := consolidate.Node{Offer: consolidate.Offer{NodePool: tc.pool, InstanceType: tc.instanceType, Zone: "a", CapacityType: "spot"}}
		n.SetPrice(priced(), []*corev1.Pod{requesting("600m"), requesting("400m")})
		if math.Abs(n.Price-tc.want) > 1e-9 || n.CPU != 1000 {
			t.Errorf("%s of NodePool %s costs %v with %dm CPU, want %v", tc.instanceType, tc.pool, n.Price, n.CPU, tc.want)
		}
	}
}

// A spot node costs what interruptions of its pods are expected to cost as well, and pods that move to it make that more.
func TestPriceHasExpectedLoss(t *testing.T) {
	cat := priced()
	cat.InstanceTypes["large-disks"][0].Offerings[0].LossPerPod = 0.01
	offer := consolidate.Offer{NodePool: "thrifty", InstanceType: "m", Zone: "a", CapacityType: "spot"}
	nodes := []consolidate.Node{
		{Offer: offer, Name: "full", Policy: consolidate.WhenEmptyOrUnderutilized, Pods: []consolidate.Pod{{Name: "x", Weight: 1, Fresh: 1}, {Name: "y", Weight: 1, Fresh: 1}}},
		{Offer: offer, Name: "target", Blocked: "stays"},
	}
	for i := range nodes {
		nodes[i].SetPrice(cat, nil)
	}
	if math.Abs(nodes[0].Price-2.02) > 1e-9 || math.Abs(nodes[1].Price-2) > 1e-9 {
		t.Fatalf("prices %v and %v, want 2.02 and 2", nodes[0].Price, nodes[1].Price)
	}
	ask := func(context.Context, []string, []string) (consolidate.Answer, error) {
		return consolidate.Answer{Existing: map[string]string{"x": "target", "y": "target"}}, nil
	}
	got, err := consolidate.Decide(t.Context(), nodes, consolidate.DefaultOptions(), ask)
	if err != nil || len(got.Moves) != 1 || math.Abs(got.Moves[0].Saving-2) > 1e-9 || math.Abs(got.Moves[0].Surplus-0.02) > 1e-9 {
		t.Errorf("moves %+v, %v; want one that saves 2, with 0.02 more on the target", got.Moves, err)
	}
}

// burstable returns two nodes: a small one with one pod, and a burstable one with room for it that uses the given CPU.
func burstable(cpu string) []consolidate.Node {
	node := func(name, instanceType, blocked string, pods ...*corev1.Pod) consolidate.Node {
		n := consolidate.Node{
			Offer: consolidate.Offer{NodePool: "thrifty", InstanceType: instanceType, Zone: "a", CapacityType: "spot"},
			Name:  name, Policy: consolidate.WhenEmptyOrUnderutilized, Blocked: blocked,
		}
		n.SetPrice(priced(), pods)
		for range pods {
			n.Pods = append(n.Pods, consolidate.Pod{Name: "default/" + name, Weight: 1, CPU: n.CPU})
		}
		return n
	}
	return []consolidate.Node{node("idle", "t3.large", "", requesting("2")), node("stays", "t3.large", "a pod may not be disrupted", requesting(cpu))}
}

// The pods of a removed node cost what the burstable node that they move to uses more beyond its baseline.
func TestSurplusOfTargets(t *testing.T) {
	ask := func(context.Context, []string, []string) (consolidate.Answer, error) {
		return consolidate.Answer{Existing: map[string]string{"default/idle": "stays"}}, nil
	}
	for _, tc := range []struct {
		cpu     string
		surplus float64
	}{{"100m", 0.025 * 1.3}, {"800m", 0.025 * 2}} {
		got, err := consolidate.Decide(t.Context(), burstable(tc.cpu), consolidate.DefaultOptions(), ask)
		if err != nil || len(got.Moves) != 1 {
			t.Fatalf("%s: %+v, %v", tc.cpu, got, err)
		}
		m := got.Moves[0]
		// The node costs 0.1 and 1.2 CPUs beyond the baseline of 0.8, at half the price.
		if want := 0.1 + 0.025*1.2 - tc.surplus; math.Abs(m.Surplus-tc.surplus) > 1e-9 || math.Abs(m.Saving-want) > 1e-9 {
			t.Errorf("%s: surplus %v, saving %v; want %v and %v", tc.cpu, m.Surplus, m.Saving, tc.surplus, want)
		}
		if most, saved := m.Most(consolidate.DefaultOptions()), m.Saving; most > m.Nodes[0].Price-m.Surplus || most < 0 || saved <= 0 {
			t.Errorf("%s: replacements may cost %v", tc.cpu, most)
		}
	}
}

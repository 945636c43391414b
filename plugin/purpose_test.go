package plugin

import (
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Which pods see which nodes in flight: one of a standby buffer that sleeps is seen by the buffer's own pods until it has drifted, and by those that may
// take its room while its instance can be started.
func TestWhoSeesANodeInFlight(t *testing.T) {
	state := catalog.State{
		NodePools: map[string]catalog.NodePool{"p": {Name: "p", NodeClass: "c"}},
		InstanceTypes: map[string][]catalog.InstanceType{"c": {{Name: "m", Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "on-demand", Available: true}, {Zone: "b", CapacityType: "on-demand"},
		}}}},
	}
	node := func(change func(*catalog.InFlightNode)) catalog.InFlightNode {
		n := catalog.InFlightNode{NodeClaim: "n", NodePool: "p", InstanceType: "m", Zone: "a", CapacityType: "on-demand", Standby: "u", Phase: catalog.PhaseLaunched}
		change(&n)
		return n
	}
	pending, takers := pendingPods(), pendingPods().taking(map[string]bool{"u": true})
	for name, c := range map[string]struct {
		node                        catalog.InFlightNode
		pending, takers, own, other bool
	}{
		"asleep":      {node(func(*catalog.InFlightNode) {}), false, true, true, false},
		"stopping":    {node(func(n *catalog.InFlightNode) { n.Stopping = true }), false, false, true, false},
		"drifted":     {node(func(n *catalog.InFlightNode) { n.Outdated = true }), false, true, false, false},
		"no capacity": {node(func(n *catalog.InFlightNode) { n.Zone = "b" }), false, false, true, false},
		"no capacity, and not stopped yet": {
			node(func(n *catalog.InFlightNode) { n.Zone, n.Phase = "b", catalog.PhaseReady }), false, true, true, false,
		},
		"promised": {node(func(n *catalog.InFlightNode) { n.Pods = []catalog.PodRef{{UID: "pod"}} }), true, true, false, false},
		"ordinary": {node(func(n *catalog.InFlightNode) { n.Standby = "" }), true, true, false, false},
		"drifted, and not initialized yet": {
			node(func(n *catalog.InFlightNode) { n.Standby, n.Phase, n.Outdated = "", catalog.PhaseReady, true }), true, true, false, false,
		},
	} {
		for of, want := range map[*purpose]bool{
			&pending: c.pending, &takers: c.takers, new(standbyPods("u")): c.own, new(standbyPods("v")): c.other,
		} {
			if got := of.sees(c.node, state); got != want {
				t.Errorf("a node that is %s is seen by %+v: %t", name, *of, got)
			}
		}
	}
}

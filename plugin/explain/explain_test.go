package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

func TestMessages(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	unplaced := plan.Unplaced{Reasons: []plan.Reason{
		{NodePool: "default", Code: "TaintNotTolerated", Message: "taint dedicated=gpu:NoSchedule is not tolerated"},
		{NodePool: "arm", Code: "NotReady"},
		{NodePool: "arm", Code: "NotReady"},
	}}
	for _, tc := range []struct {
		name string
		got  fmt.Stringer
		want string
	}{
		{
			"launching", explain.Launching(plan.Claim{Name: "default-x7k2p", Expected: plan.Offer{InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "spot", Price: 0.02834}}),
			"launching m7g.large spot in us-east-1a (0.0283 USD/h), NodeClaim default-x7k2p",
		},
		{
			"launching, by part", explain.Launching(plan.Claim{
				Name: "default-x7k2p", Expected: plan.Offer{InstanceType: "t3a.small", Zone: "us-east-1a", CapacityType: "spot", Price: 0.0411},
				Cost: catalog.Cost{Instance: 0.0089, Volumes: 0.0022, PublicIPv4: 0.005, Burst: 0.015, Declared: 0.01, Interruptions: 0.00001},
			}),
			"launching t3a.small spot in us-east-1a (0.0411 USD/h: instance 0.0089 + volumes 0.0022 + public IPv4 0.0050 + burst 0.0150 + declared 0.0100), NodeClaim default-x7k2p",
		},
		{
			"joining", explain.Joining(catalog.InFlightNode{NodeClaim: "default-x7k2p", InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "spot", Phase: catalog.PhaseNodeCreated}),
			"waits for m7g.large spot in us-east-1a, NodeClaim default-x7k2p, which is booting",
		},
		{
			"unplaced, per NodePool, each reason once, NodePools that it does not tolerate last", explain.Unplaced(unplaced, "0/3 nodes are available: 3 Insufficient cpu."),
			"0/3 nodes are available: 3 Insufficient cpu. No node can be launched: NodePool arm: NotReady; NodePool default: taint dedicated=gpu:NoSchedule is not tolerated",
		},
		{"no NodePool at all", explain.Unplaced(plan.Unplaced{}, ""), "no node can be launched: there is no NodePool"},
		{
			"incompatible", explain.Incompatible("2.0", "1.0", "0/1 nodes are available: 1 Insufficient cpu."),
			"0/1 nodes are available: 1 Insufficient cpu. No node can be launched: slipway-launcher speaks version 2.0 of the contract between " +
				"slipway's containers, slipway-scheduler version 1.0: run both from one release",
		},
		{
			"unreachable", explain.Unreachable("/s", at, ""),
			"no node can be launched: slipway-launcher cannot be reached at /s since 2026-01-02T03:04:05Z; will plan as soon as it is back",
		},
		{"failed", explain.Failed("default-1", "InsufficientInstanceCapacity", "no m7g.large"), "NodeClaim default-1 failed: InsufficientInstanceCapacity: no m7g.large; planning again"},
		{"gang", explain.GangWaits("g", 2, "0/1 nodes are available."), "0/1 nodes are available. Slipway waits for 2 more pods of gang g before it plans nodes for it"},
		{"not launchable", explain.NotLaunchable("it names its node", ""), "no node is launched: it names its node"},
		{"awaits room", explain.AwaitsRoom("default/old", "n"), "no node is launched while pod default/old ends, whose room it gets on node n"},
		{"set aside", explain.SetAside("boom", at), "no node can be launched: planning this pod failed (boom); it is planned again after 2026-01-02T03:04:05Z"},
		{
			"delayed", explain.Delayed("default-1", "Insufficient cpu", at, ""),
			"no node can be launched: the node launched for this pod (NodeClaim default-1) could not run it: Insufficient cpu; next launch after 03:04:05",
		},
		{
			"gang delayed", explain.GangDelayed("gang default/g runs with all 3 or none", at, ""),
			"no node can be launched: gang default/g runs with all 3 or none; its NodeClaims were given back; next launch after 03:04:05",
		},
	} {
		if got := tc.got.String(); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
	if got := explain.BackingOff(4, "UnfulfillableCapacity", at); got != "4 launches in a row failed, the last with: UnfulfillableCapacity; next try after 03:04:05" {
		t.Errorf("backing off: %s", got)
	}
}

// What existing nodes' filters count is no news; another reason is.
func TestText(t *testing.T) {
	unplaced := func(pool, verdict string) explain.Message {
		return explain.Unplaced(plan.Unplaced{Reasons: []plan.Reason{{NodePool: pool, Message: "asks for 500 cpu"}}}, verdict)
	}
	for _, tt := range []struct {
		a, b explain.Message
		same bool
	}{
		{unplaced("a", "0/12 nodes are available."), unplaced("a", "0/13 nodes are available."), true},
		{unplaced("a", "0/12 nodes are available."), unplaced("a", ""), true},
		{unplaced("a", "0/12 nodes are available."), unplaced("b", "0/12 nodes are available."), false},
		{explain.Existing("m"), explain.Existing("m"), true},
		{explain.Existing("m"), explain.Existing("n"), false},
		{explain.Message{}, unplaced("a", ""), false},
	} {
		if got := tt.a.Text() == tt.b.Text(); got != tt.same {
			t.Errorf("%q and %q: the same text: %t", tt.a, tt.b, got)
		}
	}
	if !(explain.Message{Verdict: "0/12 nodes are available."}).IsZero() || unplaced("a", "").IsZero() {
		t.Error("a verdict alone reports nothing, a refusal does")
	}
}

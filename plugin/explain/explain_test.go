package explain_test

import (
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
	for _, tc := range []struct{ name, got, want string }{
		{
			"launching", explain.Launching(plan.Claim{Name: "default-x7k2p", Expected: plan.Offer{InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "spot", Price: 0.02834}}),
			"launching m7g.large spot in us-east-1a (0.0283 USD/h), NodeClaim default-x7k2p",
		},
		{
			"joining", explain.Joining(catalog.InFlightNode{NodeClaim: "default-x7k2p", InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "spot", Phase: catalog.PhaseNodeCreated}),
			"waits for m7g.large spot in us-east-1a, NodeClaim default-x7k2p, which is booting",
		},
		{
			"unplaced, per NodePool, each reason once", explain.Unplaced(unplaced, "0/3 nodes are available: 3 Insufficient cpu."),
			"0/3 nodes are available: 3 Insufficient cpu. No node can be launched: NodePool default: taint dedicated=gpu:NoSchedule is not tolerated; NodePool arm: NotReady",
		},
		{"no NodePool at all", explain.Unplaced(plan.Unplaced{}, ""), "no node can be launched: there is no NodePool"},
		{
			"unreachable", explain.Unreachable("/s", at, ""),
			"no node can be launched: slipway-launcher cannot be reached at /s since 2026-01-02T03:04:05Z; will plan as soon as it is back",
		},
		{"failed", explain.Failed("default-1", "InsufficientInstanceCapacity", "no m7g.large"), "NodeClaim default-1 failed: InsufficientInstanceCapacity: no m7g.large; planning again"},
		{"backing off", explain.BackingOff(4, "UnfulfillableCapacity", at), "4 launches in a row failed, the last with: UnfulfillableCapacity; next try after 03:04:05"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, tc.got, tc.want)
		}
	}
}

// What existing nodes' filters count is no news; another reason is.
func TestSameReason(t *testing.T) {
	const why = "no node can be launched: NodePool a: asks for 500 cpu"
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"0/12 nodes are available. " + why, "0/13 nodes are available. " + why, true},
		{why, why + "; NodePool b: is not ready", false},
		{"launching m7g.large", "launching m7g.large", false},
		{"", why, false},
	} {
		if got := explain.SameReason(tt.a, tt.b); got != tt.want {
			t.Errorf("SameReason(%q, %q) = %t", tt.a, tt.b, got)
		}
	}
}

package explain_test

import (
	"fmt"
	"slices"
	"strings"
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
			"incompatible", explain.Incompatible("2.0", "1.0", "0/1 nodes are available: 1 Insufficient cpu."),
			"0/1 nodes are available: 1 Insufficient cpu. No node can be launched: slipway-launcher speaks version 2.0 of the contract between " +
				"slipway's containers, slipway-scheduler version 1.0: run both from one release",
		},
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
func TestReason(t *testing.T) {
	unplaced := func(pool, verdict string) string {
		return explain.Unplaced(plan.Unplaced{Reasons: []plan.Reason{{NodePool: pool, Message: "asks for 500 cpu"}}}, verdict)
	}
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{unplaced("a", "0/12 nodes are available."), unplaced("a", "0/13 nodes are available."), true},
		{unplaced("a", "0/12 nodes are available."), unplaced("a", ""), true},
		{unplaced("a", "0/12 nodes are available."), unplaced("b", "0/12 nodes are available."), false},
		{"launching m7g.large", "launching m7g.large", true},
		{"launching m7g.large", "launching c7g.large", false},
		{"", unplaced("a", ""), false},
	} {
		if got := explain.Reason(tt.a) == explain.Reason(tt.b); got != tt.same {
			t.Errorf("%q and %q: the same reason: %t", tt.a, tt.b, got)
		}
	}
}

// A message can be read back.
func TestParse(t *testing.T) {
	reasons := []plan.Reason{
		{NodePool: "a", Message: "no type fits: largest has 96 of 128 cores; and that is all"},
		{NodePool: "b", Message: "taint x: not tolerated"},
		{NodePool: "c", Message: "taint x: not tolerated"},
	}
	message := explain.Unplaced(plan.Unplaced{Reasons: reasons}, "0/3 nodes are available: 3 Insufficient cpu.")
	if !strings.HasSuffix(message, "; NodePools b, c: taint x: not tolerated") {
		t.Errorf("message %q", message)
	}
	verdict, got, ok := explain.Parse(message)
	if !ok || verdict != "0/3 nodes are available: 3 Insufficient cpu." || !slices.Equal(got, reasons) {
		t.Errorf("parsed %q, %v, %t", verdict, got, ok)
	}
	if _, got, ok := explain.Parse("no node can be launched: there is no NodePool"); !ok || len(got) != 1 || got[0].Message != "there is no NodePool" {
		t.Errorf("parsed %v, %t", got, ok)
	}
	if _, _, ok := explain.Parse("launching m7g.large"); ok {
		t.Error("a launch is no refusal")
	}
	for i := range 50 {
		reasons = append(reasons, plan.Reason{NodePool: fmt.Sprint("p", i), Message: fmt.Sprint("reason ", i)})
	}
	if long := explain.Unplaced(plan.Unplaced{Reasons: reasons}, ""); !strings.HasSuffix(long, "; and 32 reasons more") {
		t.Errorf("message %q", long)
	}
}

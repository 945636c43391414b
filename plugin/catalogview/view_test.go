package catalogview

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// receivedView is a view whose catalog came at the time.
func receivedView(at time.Time) *View {
	v := New()
	v.Receive(smallCatalog(nil), at)
	v.Resync(at)
	return v
}

// A claim that the launcher has recorded is in flight, with its pods and against its pool's limits, until the catalog shows it or
// too long has passed.
func TestRecordedClaims(t *testing.T) {
	now := time.Unix(1000, 0)
	v := receivedView(now)
	claim := plan.Claim{
		Name: "n", NodePool: "p", Expected: plan.Offer{InstanceType: "t", Zone: "a"}, Allocatable: cpus("3"),
		Members: []plan.Member{{Pods: []catalog.PodRef{{UID: "1"}}}},
	}
	v.Record(claim, now)
	got := v.State(map[string][]promise.Promise{"n": {{Pod: catalog.PodRef{UID: "1"}}, {Pod: catalog.PodRef{UID: "2"}}}}, now)
	if n := got.InFlight["n"]; n.InstanceType != "t" || len(n.Pods) != 2 {
		t.Errorf("in flight %v, want the recorded claim with its pod and the promised one", n)
	}
	if nodes := got.NodePools["p"].Usage["nodes"]; nodes.Value() != 1 {
		t.Errorf("usage %v, want one node", got.NodePools["p"].Usage)
	}
	if late := v.Unconfirmed(now.Add(confirmWithin), true); len(late) != 0 {
		t.Errorf("%v are given up in time", late)
	}
	away := now.Add(time.Hour)
	if late := v.Unconfirmed(away, false); len(late) != 0 {
		t.Errorf("%v are given up while the launcher is away", late)
	}
	if late := v.Unconfirmed(away.Add(confirmWithin), true); len(late) != 0 {
		t.Errorf("%v are given up before the launcher, which is back, had its time", late)
	}
	now = away
	v.Distrust(now)
	if late := v.Unconfirmed(now.Add(time.Hour), true); len(late) != 0 || v.Synced() {
		t.Errorf("%v are given up while the view is not synced", late)
	}
	v.Resync(now.Add(-1))
	if v.Synced() {
		t.Error("a stream that was opened before the request went unanswered is trusted")
	}
	v.Record(claim, now)
	v.Resync(now)
	if late := v.Unconfirmed(now.Add(confirmWithin+1), true); len(late) != 1 || len(v.State(nil, now).InFlight) != 0 {
		t.Errorf("%v are given up, want the claim", late)
	}
}

// A claim that ended while there was no connection is not in the full state of the next stream: it is in flight no more, however late it is noticed that the
// connection is back.
func TestRecordedClaimEndsUnseen(t *testing.T) {
	recorded := time.Unix(1000, 0)
	v := receivedView(recorded)
	v.Record(plan.Claim{Name: "n", NodePool: "p", Expected: plan.Offer{InstanceType: "t", Zone: "a"}}, recorded)
	opened := recorded.Add(time.Second)
	v.Unconfirmed(opened.Add(time.Second), false)
	v.Resync(opened)
	if _, sent := v.Sent("n"); sent {
		t.Error("the full state of a stream that was opened after the claim was recorded lacks it, and it is in flight")
	}
}

// A recorded claim counts against the limits as the largest type that it may become, as in the launcher.
func TestRecordedClaimsCountTheLargest(t *testing.T) {
	now := time.Unix(1000, 0)
	state := smallCatalog(nil)
	state.InstanceTypes["c"] = []catalog.InstanceType{
		{Name: "t", Capacity: cpus("2")}, {Name: "larger", Capacity: cpus("8")}, {Name: "another", Capacity: cpus("64")},
	}
	v := New()
	v.Receive(state, now)
	v.Record(plan.Claim{Name: "n", NodePool: "p", Expected: plan.Offer{InstanceType: "t", Zone: "a"}, Alternatives: []string{"t", "larger"}}, now)
	usage := v.State(nil, now).NodePools["p"].Usage
	if cpu, nodes := usage[corev1.ResourceCPU], usage["nodes"]; cpu.Value() != 4+8 || nodes.Value() != 1 {
		t.Errorf("usage %v, want the 4 CPUs of before, the 8 of the larger type, and one node", usage)
	}
}

// Until EC2 has answered, a recorded claim's node has only what each of its alternatives has: other pods are promised no more.
func TestRecordedClaimsAreUndecided(t *testing.T) {
	state := smallCatalog(nil)
	state.NodePools["p"] = catalog.NodePool{Name: "p", NodeClass: "c", Ready: true, Labels: map[string]string{"team": "x"}}
	state.InstanceTypes["c"] = []catalog.InstanceType{
		{Name: "t", Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "nvidia.com/gpu": resource.MustParse("1")}},
		{Name: "narrow", Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("16Gi")}},
		{Name: "another", Allocatable: cpus("1")},
	}
	v := New()
	now := time.Unix(1000, 0)
	v.Receive(state, now)
	v.Record(plan.Claim{
		Name: "n", NodePool: "p", Expected: plan.Offer{InstanceType: "t", Zone: "a"}, Alternatives: []string{"t", "narrow"},
		Allocatable: state.InstanceTypes["c"][0].Allocatable,
		Requirements: []catalog.Requirement{
			{Key: "arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}},
			{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}},
			{Key: "size", Operator: corev1.NodeSelectorOpGt, Values: []string{"1"}},
		},
		Labels: map[string]string{"team": "x", "arch": "arm64", "zone": "a", "size": "2", "family": "t"},
	}, now)
	got := v.State(nil, now).InFlight["n"]
	want := map[string]string{"team": "x", "arch": "arm64", "karpenter.sh/nodepool": "p", "karpenter.k8s.aws/ec2nodeclass": "c"}
	if !maps.Equal(got.Labels, want) {
		t.Errorf("labels %v, want %v", got.Labels, want)
	}
	if cpu, memory := got.Allocatable.Cpu(), got.Allocatable.Memory(); cpu.Value() != 2 || memory.Value() != 8<<30 || len(got.Allocatable) != 2 {
		t.Errorf("allocatable %v, want the least of both types", got.Allocatable)
	}
}

// The node of a standby buffer sleeps from when it is recorded: the buffer's own pods do not wake it.
func TestRecordedStandby(t *testing.T) {
	now := time.Unix(1000, 0)
	v := receivedView(now)
	v.Record(plan.Claim{
		Name: "n", NodePool: "p", Standby: "buffer", Members: []plan.Member{{Pods: []catalog.PodRef{{UID: catalog.VirtualUIDPrefix + "1"}}}},
	}, now)
	if got := v.State(nil, now).InFlight; len(got) != 0 {
		t.Errorf("%v is room for any pod, before the catalog shows it", got)
	}
}

// The node of a claim is awaited in the scheduler's cache when it is initialized, for a while, and is young afterwards.
func TestSettled(t *testing.T) {
	now := time.Unix(1000, 0)
	never := func(string) bool { return false }
	for name, c := range map[string]struct {
		after time.Duration
		sees  func(string) bool
		want  int
	}{
		"seen":             {0, func(node string) bool { return node == "ip-1" }, 1},
		"not seen yet":     {settleWithin - 1, never, 0},
		"not seen in time": {settleWithin, never, 1},
	} {
		v := receivedView(now)
		v.Initialized(catalog.InFlightNode{NodeClaim: "n", NodeName: "ip-1", NodePool: "p"}, now)
		if !v.Knows("n") || v.Settling() != 1 || len(v.State(nil, now).InFlight) != 1 {
			t.Errorf("%s: the node is not awaited", name)
		}
		at := now.Add(c.after)
		if got := v.Settled(at, c.sees); len(got) != c.want || c.want == 1 && got[0] != (Node{NodeClaim: "n", Name: "ip-1"}) {
			t.Errorf("%s: %v have settled, want %d", name, got, c.want)
		}
		if v.Young("ip-1", at) != (c.want == 1) || v.Settling() != 1-c.want {
			t.Errorf("%s: young is %t, %d are settling", name, v.Young("ip-1", at), v.Settling())
		}
		if v.Forget(at.Add(youngFor)); v.Young("ip-1", at.Add(youngFor)) {
			t.Errorf("%s: the node is young for too long", name)
		}
	}
}

// The pods of a Ready node may be tried when the scheduler's cache has shown for a moment that it takes pods.
func TestTakingPods(t *testing.T) {
	now := time.Unix(1000, 0)
	v := receivedView(now)
	sees := false
	taking := func(at time.Time) int { return len(v.TakingPods(at, time.Second, func(string) bool { return sees })) }
	v.Shown(catalog.InFlightNode{NodeClaim: "n", NodeName: "ip-1", Phase: catalog.PhaseRegistered})
	if v.Ready() != 0 {
		t.Error("a node is Ready that has only registered")
	}
	v.Shown(catalog.InFlightNode{NodeClaim: "n", NodeName: "ip-1", Phase: catalog.PhaseReady})
	if v.Ready() != 1 || taking(now) != 0 {
		t.Error("a node takes pods that the scheduler does not see")
	}
	sees = true
	if taking(now.Add(time.Second)) != 0 || taking(now.Add(3*time.Second)) != 0 || taking(now.Add(7*time.Second)) != 1 {
		t.Error("a node takes pods before the launcher has reported which it has bound, or never")
	}
	v.Shown(catalog.InFlightNode{NodeClaim: "n", NodeName: "ip-1", Phase: catalog.PhaseReady, Started: true})
	if taking(now.Add(time.Second)) != 0 || taking(now.Add(2*time.Second)) != 1 {
		t.Error("a node does not take pods a moment after it was first seen")
	}
	if v.Tried("n"); v.Ready() != 0 {
		t.Error("the node is looked at after all its pods were tried")
	}
}

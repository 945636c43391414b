package catalogview

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// failing is a view of a NodePool after so many attempts that failed in a row, one each nanosecond.
func failing(now time.Time, attempts int) *View {
	v := receivedView(now)
	for i := range attempts {
		v.Failed(fmt.Sprintf("n-%d", i), "p", "NodeClassNotReady", "NodeClassNotReady", now.Add(time.Duration(i-attempts+1)))
	}
	return v
}

// Launches that fail in a row make their pool wait, and one that works ends that.
func TestPoolsBackOff(t *testing.T) {
	now := time.Unix(1000, 0)
	for attempts := range freeFailures + 1 {
		if v := failing(now, attempts); !v.State(nil, now).NodePools["p"].Ready || !v.BackoffEnds(now).IsZero() {
			t.Errorf("the pool waits after %d failures", attempts)
		}
	}
	v := failing(now, freeFailures+1)
	until := v.BackoffEnds(now)
	if pool := v.State(nil, now).NodePools["p"]; pool.Ready || !until.Equal(now.Add(time.Second)) {
		t.Errorf("after %d failures the pool waits until %s, ready %t", freeFailures+1, until, pool.Ready)
	}
	if !v.State(nil, until).NodePools["p"].Ready {
		t.Error("the pool is not ready when its time is over")
	}
	v.Failed("again", "p", "NodeClassNotReady", "NodeClassNotReady", now.Add(1))
	if v.Initialized(catalog.InFlightNode{NodeClaim: "n", NodePool: "p"}, now); !v.State(nil, now).NodePools["p"].Ready {
		t.Error("the pool waits after a launch that worked")
	}
}

// A request of many claims is one attempt: they are refused in one answer, or end one after the other by one error of EC2.
func TestClaimsOfARequestCountOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	v := receivedView(now)
	for i := range 12 {
		v.Failed(fmt.Sprintf("refused-%d", i), "p", "NodePoolNotFound", "NodePoolNotFound", now)
		v.Record(plan.Claim{Name: fmt.Sprintf("n-%d", i), NodePool: "p"}, now)
	}
	for i := range 12 {
		now = now.Add(50 * time.Millisecond)
		v.Ended(catalog.InFlightNode{NodeClaim: fmt.Sprintf("n-%d", i), NodePool: "p"}, "", now)
		v.Failed(fmt.Sprintf("n-%d", i), "p", "Unauthorized", "Unauthorized", now)
	}
	if until := v.BackoffEnds(now); !until.IsZero() {
		t.Errorf("the pool waits until %s after one request", until)
	}
	for i := range freeFailures {
		now = now.Add(time.Second)
		name := fmt.Sprintf("next-%d", i)
		v.Record(plan.Claim{Name: name, NodePool: "p"}, now)
		v.Failed(name, "p", "Unauthorized", "Unauthorized", now.Add(time.Second))
	}
	if until := v.BackoffEnds(now); until.IsZero() {
		t.Errorf("the pool does not wait after %d requests", freeFailures+1)
	}
}

// What says nothing about the pool has no other launch of it wait. Where the limits refuse a claim the catalog lags behind, and the pool waits a moment.
func TestReasonsThatDoNotCount(t *testing.T) {
	now := time.Unix(1000, 0)
	for reason, want := range map[string]time.Duration{
		api.ReasonGangIncomplete: 0, api.ReasonPodsBound: 0, api.ReasonInstanceTerminated: 0, api.ReasonLimitsExceeded: time.Second,
	} {
		v := receivedView(now)
		for i := range 12 {
			v.Failed(fmt.Sprintf("n-%d", i), "p", reason, reason+" (why)", now.Add(time.Duration(i-11)))
		}
		pool, until := v.State(nil, now).NodePools["p"], v.BackoffEnds(now)
		if pool.Ready != (want == 0) || until.IsZero() != (want == 0) || want > 0 && (!until.Equal(now.Add(want)) || pool.NotReadyMessage != reason+" (why)") {
			t.Errorf("%s: ready %t, %q, waits until %s", reason, pool.Ready, pool.NotReadyMessage, until)
		}
		if !v.State(nil, now.Add(time.Second)).NodePools["p"].Ready {
			t.Errorf("%s: the pool waits for more than a second", reason)
		}
	}
}

// Where the launcher refuses by what the catalog does not show, the pool waits longer each time, until what it has changes.
func TestRefusalsByLimitsInARow(t *testing.T) {
	now := time.Unix(1000, 0)
	v := receivedView(now)
	for i := range 12 {
		want := min(time.Second<<i, backoffMax)
		v.Failed(fmt.Sprintf("n-%d", i), "p", api.ReasonLimitsExceeded, "why", now)
		until := v.BackoffEnds(now)
		if until.Sub(now) != want {
			t.Fatalf("refusal %d: the pool waits for %s, want %s", i+1, until.Sub(now), want)
		}
		now = until
	}
	v.Receive(smallCatalog(func(p *catalog.NodePool, _ *catalog.InstanceType) {
		p.Usage = corev1.ResourceList{"nodes": resource.MustParse("7")}
	}), now)
	if v.Failed("next", "p", api.ReasonLimitsExceeded, "why", now); v.BackoffEnds(now).Sub(now) != time.Second {
		t.Errorf("after nodes came, the pool waits for %s", v.BackoffEnds(now).Sub(now))
	}
}

// An edit of the NodePool, and a class that becomes ready, may have ended the cause.
func TestBackoffEndsWithAChangeOfThePool(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		change func(*catalog.NodePool)
		waits  bool
	}{
		"usage":      {func(p *catalog.NodePool) { p.Usage = cpus("5") }, true},
		"generation": {func(p *catalog.NodePool) { p.Generation++ }, false},
		"readiness":  {func(p *catalog.NodePool) { p.Ready = false }, false},
	} {
		v := failing(now, freeFailures+1)
		v.Receive(smallCatalog(func(p *catalog.NodePool, _ *catalog.InstanceType) { tc.change(p) }), now)
		v.Receive(smallCatalog(func(p *catalog.NodePool, _ *catalog.InstanceType) { tc.change(p); p.Ready = true }), now)
		if pool := v.State(nil, now).NodePools["p"]; pool.Ready == tc.waits {
			t.Errorf("%s: ready %t", name, pool.Ready)
		}
	}
}

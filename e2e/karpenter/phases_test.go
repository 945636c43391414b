package karpenter_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/karpenter/beside"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// The headings of figures that are judged.
const (
	firstClaim  = "first NodeClaim"
	lastPod     = "last pod Running"
	fewestReady = "fewest Ready"
	usdAtEnd    = "USD/h"
)

const (
	// manyPods is from where machines are light.
	manyPods = 1000
	// reclaimed is one of how many nodes a reclaim takes.
	reclaimed = 5
	// driftBudget is how many nodes may drift together.
	driftBudget = "20%"
)

// phase is one thing that both sides do.
type phase struct {
	name string
	// budget of the NodePool; empty means that all nodes may leave together.
	budget string
	// run does it with n pods and returns what was measured.
	run func(c *cluster, n int) []beside.Figure
	// judge fails where slipway is worse than Karpenter in what holds on any machine; nil for nothing.
	judge func(t *testing.T, karpenter, slipway beside.Run)
}

// phases are those of the comparison, in the order of the tables.
func phases() []phase {
	launches := func(prepare func(c *cluster), create func(c *cluster, n int)) func(*cluster, int) []beside.Figure {
		return func(c *cluster, n int) []beside.Figure {
			prepare(c)
			return c.scaleOut(n, create)
		}
	}
	plain := func(c *cluster, n int) { c.deployment(int32(n)) }
	return []phase{
		{name: "scale-out", run: launches(func(*cluster) {}, plain), judge: sooner},
		{name: "constraints", run: launches(func(*cluster) {}, (*cluster).constrained), judge: sooner},
		{name: "scale-in", run: (*cluster).scaleIn, judge: calmer},
		{name: "drift", budget: driftBudget, run: (*cluster).drift, judge: calmer},
		{name: "reclaim", run: (*cluster).reclaim, judge: calmer},
		{name: "stock-out of the cheapest half of spot", run: launches((*cluster).withoutCheapest, plain), judge: sooner},
		{name: "stock-out of all spot", run: launches(func(c *cluster) { c.AWS().ICE("all", "all", aws.Spot, time.Hour) }, plain), judge: sooner},
	}
}

// sooner holds for pods that wait for nodes: Karpenter waits for a second before it plans, and packs by the price of one node. Boots are drawn, so that the last
// pod of few may wait for a slow one.
func sooner(t *testing.T, karpenter, slipway beside.Run) {
	t.Helper()
	atMost(t, firstClaim, 1, karpenter, slipway)
	atMost(t, lastPod, 1.5, karpenter, slipway)
	cheaper(t, karpenter, slipway)
}

// calmer holds for nodes that are removed: new nodes are Ready before pods leave old ones.
func calmer(t *testing.T, karpenter, slipway beside.Run) {
	t.Helper()
	atMost(t, fewestReady, 1, slipway, karpenter)
	cheaper(t, karpenter, slipway)
}

// cheaper fails where the bill is more than a tenth above Karpenter's: of few pods one node is much.
func cheaper(t *testing.T, karpenter, slipway beside.Run) {
	t.Helper()
	atMost(t, usdAtEnd, 1.1, karpenter, slipway)
}

// atMost fails where a figure of a side is more than so many times the other's. A figure that was not reached or is not there is NaN, which is at most nothing.
func atMost(t *testing.T, figure string, times float64, other, side beside.Run) {
	t.Helper()
	if got, of := side.Get(figure), other.Get(figure); !(got <= times*of) {
		t.Errorf("%s: %.2f with %s, %.2f with %s", figure, got, side.Side, of, other.Side)
	}
}

// measure runs one side alone on a sandbox of its own.
func (p phase) measure(tb testing.TB, s side) []beside.Figure {
	tb.Helper()
	n, machines, budget := int(number(tb, "pods")), sandbox.Simulated, "100%"
	if n >= manyPods {
		machines = sandbox.Light
	}
	if p.budget != "" {
		budget = p.budget
	}
	c := startOn(tb, s.autoscaler, machines)
	c.poolsWithin(budget, "default")
	c.awaitPool()
	return p.run(c, n)
}

// scaleOut has pods wait for nodes that there are not.
func (c *cluster) scaleOut(n int, create func(c *cluster, n int)) []beside.Figure {
	o := begin(c)
	create(c, n)
	o.until("all pods to run", func() bool { return c.runs() == n })
	fleets := 0
	for _, call := range c.AWS().Calls() {
		if call.Action == "CreateFleet" && call.At.After(o.begun) {
			fleets++
		}
	}
	first := c.recorder.Claims()[0]
	return append([]beside.Figure{
		beside.Count("pods", n), beside.Seconds(lastPod, o.lastRunning()),
		{Name: firstClaim, Unit: "s", Digits: 1, Value: first.Created.At.Sub(o.begun).Seconds()},
		beside.Count("CreateFleet calls", fleets), beside.Count("nodes", len(c.claims())), beside.USD(usdAtEnd, c.bill()),
	}, o.spent()...)
}

// scaleIn has twice the pods run, ends all but 35 % of them, and watches what becomes of the nodes.
func (c *cluster) scaleIn(n int) []beside.Figure {
	from, to := 2*n, 2*n*35/100
	d := c.deployment(int32(from))
	begin(c).until("all pods to run", func() bool { return c.runs() == from })
	time.Sleep(30 * time.Second) // Both look at their nodes once, and have launched what they launch.
	before := c.bill()
	o := begin(c)
	c.scale(d, int32(to))
	window := time.Duration(number(c.t, "minutes") * float64(time.Minute))
	o.until("the scale-in", func() bool { return time.Since(o.begun) >= window && c.runs() == to })
	out := []beside.Figure{beside.Count("pods before", from), beside.Count("after", to), beside.USD("USD/h before", before)}
	for _, minute := range []int{1, 2, 3, 4, 5, 7} {
		if at := time.Duration(minute) * time.Minute; at < window {
			out = append(out, beside.USD(fmt.Sprintf("after %d min", minute), o.series.USDAt(at)))
		}
	}
	return append(out, append([]beside.Figure{
		beside.USD(usdAtEnd, c.bill()), beside.USD("USD paid meanwhile", o.series.Paid(0)),
		beside.Seconds("steady after", o.series.Steady(min(2*time.Minute, window/3))),
	}, o.disturbed(from)...)...)
}

// drift changes a label of the NodePool's template, which all nodes must get.
func (c *cluster) drift(n int) []beside.Figure {
	c.deployment(int32(n))
	begin(c).until("all pods to run", func() bool { return c.runs() == n })
	old := map[string]bool{}
	for _, claim := range c.claims() {
		old[claim.Object.Name] = true
	}
	before := c.bill()
	o := begin(c)
	pool := &karpv1.NodePool{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Name: "default"}, pool); err != nil {
		c.t.Fatal(err)
	}
	patch := client.MergeFrom(pool.DeepCopy())
	pool.Spec.Template.Labels = map[string]string{"example.com/generation": "2"}
	if err := c.client.Patch(c.t.Context(), pool, patch); err != nil {
		c.t.Fatal(err)
	}
	seconds := c.untilGone(o, n, old)
	return append([]beside.Figure{
		beside.Count("pods", n), beside.Count("nodes before", len(old)), beside.Seconds("all replaced", seconds),
		beside.USD("USD/h before", before), beside.USD(usdAtEnd, c.bill()),
		{Name: "extra USD meanwhile", Digits: 3, Value: o.series.Paid(before)},
	}, append(o.disturbed(n), o.spent()...)...)
}

// reclaim has EC2 warn of the end of a fifth of the spot instances, all at once.
func (c *cluster) reclaim(n int) []beside.Figure {
	c.deployment(int32(n))
	begin(c).until("all pods to run", func() bool { return c.runs() == n })
	var victims []string
	spot := slices.DeleteFunc(c.instances(), func(i aws.Instance) bool { return i.CapacityType != aws.Spot })
	if len(spot) == 0 {
		c.t.Fatal("there is no spot instance")
	}
	for i := range max(len(spot)/reclaimed, 1) {
		victims = append(victims, spot[i*reclaimed].ID)
	}
	gone := map[string]bool{}
	for _, claim := range c.claims() {
		if id := claim.Object.Status.ProviderID; slices.Contains(victims, id[strings.LastIndexByte(id, '/')+1:]) {
			gone[claim.Object.Name] = true
		}
	}
	o := begin(c)
	for _, id := range victims {
		if err := c.AWS().Interrupt(id); err != nil {
			c.t.Fatal(err)
		}
	}
	c.untilGone(o, n, gone)
	return append([]beside.Figure{
		beside.Count("pods", n), beside.Count("spot nodes", len(spot)), beside.Count("reclaimed", len(victims)),
		beside.Seconds("all pods Running again", o.lastRunning()), beside.USD(usdAtEnd, c.bill()),
	}, append(o.disturbed(n), o.spent()...)...)
}

// untilGone waits until NodeClaims are gone and n pods run, and returns when the last of the NodeClaims was gone, in seconds.
func (c *cluster) untilGone(o *observed, n int, names map[string]bool) float64 {
	last := math.NaN()
	o.until("nodes to be gone and pods to run", func() bool {
		left := len(names)
		last = 0
		for _, claim := range c.recorder.Claims() {
			if names[claim.Object.Name] && claim.Deleted.Seen() {
				left--
				last = max(last, claim.Deleted.At.Sub(o.begun).Seconds())
			}
		}
		return left == 0 && c.runs() == n
	})
	return last
}

// runs counts all pods of the phase that run and stay.
func (c *cluster) runs() int {
	n := 0
	for _, p := range c.mine() {
		if !p.Deleted.Seen() && !p.Terminating.Seen() && p.Object.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

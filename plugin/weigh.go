package plugin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/waking"
)

// mostWeighed is how many plans are made at most that wake fewer nodes than the one before.
const mostWeighed = 3

// weigh compares a plan that wakes nodes of standby buffers with one that does not, and returns the one that pays: by when the pods run, against what the nodes
// cost. Nodes that cost most for each of their pods stay asleep first.
func (p *provisioner) weigh(ctx context.Context, entries []intake.Entry, of purpose, with provision.Result) provision.Result {
	if !of.pending() || len(wokenBy(with)) == 0 {
		return with
	}
	without := of
	without.noneWakes = true
	cold, err := p.provision(ctx, entries, without)
	if err != nil || cold.Plan.CutShort || ctx.Err() != nil {
		return with // There is no time to compare.
	}
	of.asleep = map[string]bool{}
	for made := 0; ; made++ {
		woken := wokenBy(with)
		c, known := p.choice(with, cold)
		if len(woken) == 0 || !known || c.Pays(p.waitingCost) || unplacedBy(cold) > unplacedBy(with) {
			return with
		}
		if made == mostWeighed {
			return cold
		}
		dearest := slices.MaxFunc(woken, func(a, b plan.Placement) int { return cmp.Compare(perPod(with, a), perPod(with, b)) })
		klog.FromContext(ctx).V(1).Info("A node of a standby buffer stays asleep: it costs more than the time that pods would wait less", "nodeClaim", dearest.Node,
			"morePerHour", c.More, "sooner", c.Sooner)
		of.asleep[dearest.Node] = true
		next, err := p.provision(ctx, entries, of)
		if err != nil || next.Plan.CutShort || ctx.Err() != nil {
			return cold
		}
		with = next
	}
}

// wokenBy returns the plan's placements on nodes that sleep.
func wokenBy(r provision.Result) (out []plan.Placement) {
	for _, pl := range r.Plan.Placements {
		if pl.InFlight && r.Input.Catalog.InFlight[pl.Node].Sleeps() {
			out = append(out, pl)
		}
	}
	return out
}

// unplacedBy returns how many pods the plan has no room for.
func unplacedBy(r provision.Result) (n int) {
	for _, u := range r.Plan.Unplaced {
		n += len(u.Pods)
	}
	return n
}

// perPod is what the node of a placement costs for each of its pods.
func perPod(r provision.Result, pl plan.Placement) float64 {
	o, _ := r.Input.Catalog.OfferingOf(r.Input.Catalog.InFlight[pl.Node])
	return o.Price / float64(max(1, podsOf(pl.Members)))
}

// choice returns what is different between a plan that wakes nodes and one that does not. known is false where the price of one of the nodes is not.
func (p *provisioner) choice(with, cold provision.Result) (c waking.Choice, known bool) {
	c.More = with.Plan.CostPerHour - cold.Plan.CostPerHour
	boot := p.slowest(cold)
	for _, pl := range wokenBy(with) {
		n := with.Input.Catalog.InFlight[pl.Node]
		o, ok := with.Input.Catalog.OfferingOf(n)
		if !ok {
			return c, false
		}
		c.More += o.Price
		c.Sooner += time.Duration(podsOf(pl.Members)) * (boot - p.times.Of(kindOf(n, true)))
	}
	return c, true
}

// slowest returns how long the slowest node of a plan needs that wakes none; zero where all of them run.
func (p *provisioner) slowest(r provision.Result) (out time.Duration) {
	for _, c := range r.Plan.Claims {
		out = max(out, p.times.Of(waking.Kind{NodePool: c.NodePool, InstanceType: c.Expected.InstanceType}))
	}
	for _, pl := range r.Plan.Placements {
		if pl.InFlight {
			out = max(out, p.times.Of(kindOf(r.Input.Catalog.InFlight[pl.Node], false)))
		}
	}
	return out
}

func kindOf(n catalog.InFlightNode, woken bool) waking.Kind {
	return waking.Kind{NodePool: n.NodePool, InstanceType: n.InstanceType, Woken: woken}
}

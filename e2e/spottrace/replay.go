package spottrace

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// Minutes: how long a node boots, is paid after its end was decided, and runs after EC2 has announced that it takes it back; how often
// consolidation decides, and how long it leaves a node alone.
const (
	boots    = 1
	drains   = 2
	notice   = 2
	decide   = 5
	youngest = 10
	// mostTries bounds the plans of a minute: each refusal rules at least one offering out.
	mostTries = 200
)

// Config of a replay.
type Config struct {
	// Trace is the market.
	Trace Trace
	// Zones are those of the cluster.
	Zones []string
	// Pods is the size of the workload, Share its minimum on-demand share, such as 30%.
	Pods  int
	Share string
}

// Result is what a replay came to.
type Result struct {
	// Dollars were paid, Oracle is what the oracle pays.
	Dollars, Oracle float64
	// Below is how many minutes fewer pods ran than the share demands, BelowPlaced how many fewer pods had a place that is not on spot.
	Below, BelowPlaced int
	// Interrupted nodes, Evictions by consolidation, Launched nodes, and Refused launches.
	Interrupted, Evictions, Launched, Refused int
	// SpotShare is the share of pod minutes on spot.
	SpotShare float64
	// Minutes of the replay.
	Minutes int
}

// Replay replays the trace, from the minute when the first nodes are ready.
func Replay(ctx context.Context, cfg Config) (Result, error) {
	base, err := Market(cfg.Zones)
	if err != nil {
		return Result{}, err
	}
	w := newWorld(cfg, base)
	share, err := catalog.OnDemandShare(w.pool.Annotations)
	if err != nil {
		return Result{}, err
	}
	cat, _ := base.Catalog(ctx, w.objects(nil, nil))
	for _, types := range cat.InstanceTypes {
		w.volumes = types[0].Charges.Volumes
	}
	floor := int(math.Ceil(share*float64(cfg.Pods) - 1e-9))
	oracle, spot := 0.0, 0
	w.result.Minutes = len(cfg.Trace) * int(step.Minutes())
	for w.now = range w.result.Minutes {
		if err := w.minute(ctx); err != nil {
			return Result{}, fmt.Errorf("minute %d: %w", w.now, err)
		}
		if at := w.now / int(step.Minutes()); w.now == 0 || w.now%int(step.Minutes()) == 0 && !maps.Equal(cfg.Trace[at], cfg.Trace[at-1]) {
			if oracle, err = w.oracle(ctx); err != nil {
				return Result{}, err
			}
		}
		w.result.Oracle += oracle / 60
		spot += w.count(floor)
		w.pay()
	}
	w.result.SpotShare = float64(spot) / float64(w.result.Minutes*cfg.Pods)
	return w.result, nil
}

// minute lets one go by.
func (w *world) minute(ctx context.Context) error {
	var seen []interruption.Node
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[name]
		if n.offer.CapacityType != karpv1.CapacityTypeSpot {
			continue
		}
		o := interruption.Offering{InstanceType: n.offer.InstanceType, Zone: n.offer.Zone}
		if !n.interrupted && n.gone == 0 && !w.quotes()[o].Available {
			n.interrupted = true
			w.leave(name, w.now+notice)
			w.result.Interrupted++
		}
		seen = append(seen, interruption.Node{ID: name, Offering: o, Since: n.object.CreationTimestamp.Time, Interrupted: n.interrupted})
	}
	w.known.Observe(w.clock(), seen)
	if w.now%decide == decide-1 && !w.waiting() {
		if err := w.consolidate(ctx); err != nil {
			return err
		}
	}
	for try := 0; w.waiting(); try++ {
		if try == mostTries {
			return fmt.Errorf("%d plans, and each of them was refused", try)
		}
		out, err := w.plan(ctx, nil, nil)
		if err != nil {
			return err
		}
		if len(out.Plan.Unplaced) > 0 {
			return fmt.Errorf("pods have no place: %+v", out.Plan.Unplaced)
		}
		if !w.refuses(&out.Plan) {
			w.settle(&out.Plan)
		}
	}
	return nil
}

func (w *world) waiting() bool {
	return slices.ContainsFunc(w.pods, func(p *pod) bool { return p.node == "" })
}

// consolidate makes the moves of one decision. A move that EC2 refuses is called off.
func (w *world) consolidate(ctx context.Context) error {
	o := consolidate.DefaultOptions()
	all := 0
	for _, n := range w.nodes {
		if n.gone == 0 {
			all++
		}
	}
	o.Allowed = map[string]consolidate.Allowance{w.pool.Name: {Empty: (all + 9) / 10, Underutilized: (all + 9) / 10}}
	fleet, err := w.fleet(ctx)
	if err != nil {
		return err
	}
	o.Troubled = w.troubled()
	decision, err := consolidate.Decide(ctx, fleet, o, w.ask)
	if err != nil {
		return err
	}
	for i := range decision.Moves {
		m := &decision.Moves[i]
		names, pods := []string{}, 0
		for _, n := range m.Nodes {
			names, pods = append(names, n.Name), pods+len(n.Pods)
		}
		if pods > 0 {
			out, err := w.plan(ctx, names, m.Avoid)
			if err != nil {
				return err
			}
			if len(out.Plan.Unplaced) > 0 || w.refuses(&out.Plan) {
				continue
			}
			for _, name := range names {
				w.result.Evictions += w.leave(name, w.now+boots+drains)
			}
			w.settle(&out.Plan)
			continue
		}
		for _, name := range names {
			w.leave(name, w.now+1)
		}
	}
	return nil
}

// troubled returns the spot offerings that have not settled.
func (w *world) troubled() map[consolidate.SpotOffering]time.Time {
	types := map[string]*catalog.InstanceType{}
	for o, r := range w.refused {
		if types[o.InstanceType] == nil {
			types[o.InstanceType] = &catalog.InstanceType{Name: o.InstanceType}
		}
		at := catalog.Offering{Zone: o.Zone, CapacityType: karpv1.CapacityTypeSpot, Probation: r.until > w.now}
		types[o.InstanceType].Offerings = append(types[o.InstanceType].Offerings, at)
	}
	for o, seen := range w.known.Seen {
		if types[o.InstanceType] == nil {
			types[o.InstanceType] = &catalog.InstanceType{Name: o.InstanceType}
		}
		at := catalog.Offering{Zone: o.Zone, CapacityType: karpv1.CapacityTypeSpot, SettlesAt: seen.SettlesAt()}
		types[o.InstanceType].Offerings = append(types[o.InstanceType].Offerings, at)
	}
	cat := catalog.State{InstanceTypes: map[string][]catalog.InstanceType{}}
	for name, t := range types {
		cat.InstanceTypes[name] = []catalog.InstanceType{*t}
	}
	return consolidate.Troubled(cat, w.clock())
}

// fleet returns the nodes as consolidation looks at them.
func (w *world) fleet(ctx context.Context) ([]consolidate.Node, error) {
	all := w.at(func(interruption.Offering, Quote) bool { return true })
	all.Interruptions, all.InterruptionCost = &w.known, consolidate.DefaultOptions().EvictionCost
	cat, problems := all.Catalog(ctx, w.objects(nil, nil))
	if len(problems) > 0 {
		return nil, fmt.Errorf("making the catalog: %v", problems)
	}
	var out []consolidate.Node
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[name]
		if n.gone != 0 {
			continue
		}
		one := consolidate.Node{Name: name, Offer: n.offer, Policy: consolidate.WhenEmptyOrUnderutilized}
		var on []*corev1.Pod
		for _, p := range w.pods {
			if p.node == name {
				on = append(on, p.object)
				one.Pods = append(one.Pods, consolidate.Pod{
					Name: p.object.Namespace + "/" + p.object.Name, Weight: consolidate.Weight(p.object), CPU: consolidate.RequestedCPU(p.object),
					Fresh: consolidate.Fresh(p.object, w.clock(), consolidate.DefaultPodAge),
				})
			}
		}
		one.Used = consolidate.Used(n.object, on)
		one.SetPrice(cat, on)
		if w.now-n.born < youngest && len(on) > 0 {
			one.Blocked = "it is young"
		}
		out = append(out, one)
	}
	return out, nil
}

// ask implements consolidate.Ask.
func (w *world) ask(ctx context.Context, gone, avoid []string) (consolidate.Answer, error) {
	out, err := w.plan(ctx, gone, avoid)
	if err != nil {
		return consolidate.Answer{}, err
	}
	return out.Answer(), nil
}

// pay pays what is there for a minute, at the market's prices.
func (w *world) pay() {
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[name]
		if n.gone != 0 && n.gone <= w.now {
			delete(w.nodes, name)
			continue
		}
		price := w.base.OnDemand[n.offer.InstanceType]
		if n.offer.CapacityType == karpv1.CapacityTypeSpot {
			price = w.quotes()[interruption.Offering{InstanceType: n.offer.InstanceType, Zone: n.offer.Zone}].Price
		}
		w.result.Dollars += (price + w.volumes) / 60
	}
}

// count counts the pods on spot, and the minutes below the floor once the first nodes have booted.
func (w *world) count(floor int) (spot int) {
	running, kept := 0, 0
	for _, p := range w.pods {
		if w.runs(p) {
			running++
		}
		if n := w.nodes[p.node]; n != nil && n.offer.CapacityType == karpv1.CapacityTypeSpot {
			spot++
		} else {
			kept++
		}
	}
	if w.now < boots {
		return spot
	}
	if running < floor {
		w.result.Below++
	}
	if kept < floor {
		w.result.BelowPlaced++
	}
	return spot
}

// oracle returns what no nodes for the pods cost less than, in USD per hour, with the spot offerings that are available in the step.
func (w *world) oracle(ctx context.Context) (float64, error) {
	fresh := newWorld(w.cfg, w.base)
	fresh.now = w.now
	m := fresh.at(func(_ interruption.Offering, q Quote) bool { return q.Available })
	out, err := simulate.Run(ctx, fresh.objects(nil, nil), m, simulate.Options{PreferenceShare: 0.1})
	if err != nil {
		return 0, err
	}
	return out.LowerBound(ctx), nil
}

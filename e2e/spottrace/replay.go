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

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// Minutes: how long a node boots, is paid after its end was decided, and runs after EC2 has announced that it takes it back; how often
// consolidation decides.
const (
	boots  = 1
	drains = 2
	notice = 2
	decide = 5
	// mostOff bounds how long a node is left alone after its move was called off.
	mostOff = 15
	// evicted is what the eviction of a pod counts for in the figures, in USD.
	evicted = 0.005
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
	// WithMoves is Dollars and an eviction's cost for each pod that lost its node. OracleMoves is what the oracle pays that has the same cost for
	// each pod that it moves.
	WithMoves, OracleMoves float64
	// OracleWhole is what no whole nodes cost less than, if the trace has one instance type; 0 otherwise.
	OracleWhole float64
	// Below is how many minutes fewer pods ran than the share demands, BelowPlaced how many fewer pods had a place that is not on spot.
	Below, BelowPlaced int
	// Interrupted nodes and pods on them, Evictions by consolidation, Launched nodes, and Refused launches.
	Interrupted, InterruptedPods, Evictions, Launched, Refused int
	// SpotShare is the share of pod minutes on spot.
	SpotShare float64
	// Minutes of the replay.
	Minutes int
}

// Replay replays the trace, from the minute when the first nodes are ready.
func Replay(ctx context.Context, cfg Config) (Result, error) {
	base, err := cfg.market()
	if err != nil {
		return Result{}, err
	}
	w := newWorld(cfg, base)
	share, err := catalog.OnDemandShare(w.pool.Annotations)
	if err != nil {
		return Result{}, err
	}
	cat, _ := base.Catalog(ctx, w.objects(nil, nil))
	var types []catalog.InstanceType
	for _, list := range cat.InstanceTypes {
		types = list
	}
	w.volumes = types[0].Charges.Volumes
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
	w.result.WithMoves = w.result.Dollars + float64(w.result.Evictions+w.result.InterruptedPods)*evicted
	w.result.OracleMoves = max(w.result.Oracle, payingOracle(cfg, types, base.OnDemand, floor))
	w.result.OracleWhole = wholeOracle(cfg, types, base.OnDemand, floor)
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
			w.result.InterruptedPods += w.leave(name, w.now+notice)
			w.result.Interrupted++
		}
		seen = append(seen, interruption.Node{ID: name, Offering: o, Since: n.object.CreationTimestamp.Time, Interrupted: n.interrupted})
	}
	w.known.Observe(w.clock(), seen)
	if (w.now%decide == decide-1 || w.now == w.soon) && !w.waiting() {
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
	cat, problems := w.everything().Catalog(ctx, w.objects(nil, nil))
	if len(problems) > 0 {
		return fmt.Errorf("making the catalog: %v", problems)
	}
	fleet := w.fleet(cat)
	o.Troubled, o.Lasts = w.troubled(cat), consolidate.Lasts(cat)
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
			w.soon = w.now + 1
			if len(out.Plan.Unplaced) > 0 || !w.grants(ctx, &out.Plan, m, o) {
				w.callOff(names)
				continue
			}
			for _, name := range names {
				n := w.leave(name, w.now+boots+drains)
				w.result.Evictions += n
				w.calm = w.calm.With(n, w.clock())
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

// callOff leaves the nodes alone for a minute, the next time for two and so on, as launcher/disrupt does.
func (w *world) callOff(names []string) {
	for _, name := range names {
		n := w.nodes[name]
		if w.now-n.off > mostOff {
			n.next = 1
		}
		n.off, n.next = w.now+n.next, min(2*n.next, mostOff)
	}
}

// troubled returns the spot offerings that have not settled.
func (w *world) troubled(cat catalog.State) map[consolidate.SpotOffering]time.Time {
	out := consolidate.Troubled(cat, w.clock())
	for o, until := range w.refused {
		of, at := consolidate.SpotOffering(o), epoch().Add(time.Duration(until)*time.Minute)
		if until > w.now && at.After(out[of]) {
			out[of] = at
		}
	}
	return out
}

// fleet returns the nodes as consolidation looks at them.
func (w *world) fleet(cat catalog.State) []consolidate.Node {
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
				})
			}
		}
		one.Used = consolidate.Used(n.object, on)
		one.SetPrice(cat, on)
		one.EvictionCost = disruption.EvictionCost * w.calm.Strain(len(w.pods), w.clock())
		if w.now < n.off {
			one.Blocked = "its move was called off"
		}
		out = append(out, one)
	}
	return out
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

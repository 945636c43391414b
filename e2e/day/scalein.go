package day

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

const (
	// stepsPerMinute of a scale-in: a step is five seconds.
	stepsPerMinute = 12
	// decideSteps are between two decisions, quietSteps after the last pod came to a node or left it.
	decideSteps, quietSteps = 2, 6
	// endsPerStep is how many pods the ReplicaSet controller deletes in a step: kube-controller-manager makes 20 requests a second.
	endsPerStep = 100
)

// ScaleIn is one Deployment that gets fewer replicas at once.
type ScaleIn struct {
	// Seed of the market, of the pods' UIDs, by which the ReplicaSet controller chooses among equal pods, and of when pods end.
	Seed uint64
	// From and To are the replicas before and after.
	From, To int
	// Minutes that are replayed.
	Minutes int
	// Alike means that pods have no deletion cost (the annotation slipway.dev/pod-deletion-cost of a NodePool is off).
	Alike bool
}

// Minute is what is seen at the end of a minute after a scale-in.
type Minute struct {
	// USDPerHour of all nodes that are paid.
	USDPerHour float64
	// Nodes that are paid, and the Evictions until then.
	Nodes, Evictions int
}

// scaleMarket has the types and the spot prices of the sandbox's AWS.
func scaleMarket(seed uint64) (*market.Market, error) {
	m, err := market.Read(market.Files{})
	if err != nil {
		return nil, err
	}
	table, err := instancetypes.New(int64(seed))
	if err != nil {
		return nil, err
	}
	m.Types = slices.DeleteFunc(slices.Clone(m.Types), func(facts catalog.Facts) bool { return !strings.ContainsAny(facts.Name[:1], "cmr") })
	m.Zones, m.Spot = zones(), map[string]map[string]float64{}
	for _, zone := range m.Zones {
		m.Spot[zone] = map[string]float64{}
		for i := range m.Types {
			if name := m.Types[i].Name; table.Offered(name, zone) {
				m.Spot[zone][name] = table.SpotPrice(name, zone, 0)
			}
		}
	}
	return m, nil
}

// scalePool is that of the comparison with Karpenter.
func scalePool() *karpv1.NodePool {
	p := nodePool("default", karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand)
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		p.Spec.Template.Spec.Requirements[0],
		{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
		{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpLt, Values: []string{"17"}},
		{Key: awsv1.LabelInstanceGeneration, Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}},
	}
	return p
}

// scaling is a scale-in under way.
type scaling struct {
	*cluster
	random *rand.Rand
	// event is when a pod last came to a node or left it, or will.
	event map[string]int
	// settled is from when on decisions are made again.
	settled int
}

// ScaledIn is what a scale-in came to.
type ScaledIn struct {
	// Minutes of it.
	Minutes []Minute
	// Bound is what no nodes for the pods that stay cost less than, in USD per hour.
	Bound float64
	// Fewest is how many evictions as few nodes as are left make necessary: those of all pods but the ones on the fullest nodes.
	Fewest int
}

// Replay replays the scale-in.
func (s ScaleIn) Replay(ctx context.Context) (ScaledIn, error) {
	var out ScaledIn
	m, err := scaleMarket(s.Seed)
	if err != nil {
		return out, err
	}
	c := newCluster(ctx, m, nil)
	c.pools, c.steps, c.budgets, c.costs = []*karpv1.NodePool{scalePool()}, stepsPerMinute, map[string]int{}, !s.Alike
	c.reprice(ctx)
	r := &scaling{cluster: c, random: rand.New(rand.NewPCG(s.Seed, 3)), event: map[string]int{}}
	if err := r.begin(ctx, s.From); err != nil {
		return out, err
	}
	r.end(s)
	if out.Bound, err = r.scratch(ctx); err != nil {
		return out, err
	}
	var counts []int
	for _, pods := range podsOn(c) {
		counts = append(counts, len(pods))
	}
	slices.Sort(counts)
	for range s.Minutes * stepsPerMinute {
		r.now++
		r.gone()
		if r.now%decideSteps == 0 && r.now >= r.settled {
			if err := r.decide(ctx); err != nil {
				return out, err
			}
		}
		if r.now%stepsPerMinute == 0 {
			one := Minute{Nodes: len(r.nodes), Evictions: r.bill.Evictions}
			for _, n := range r.nodes {
				one.USDPerHour += r.price(n.offer)
			}
			out.Minutes = append(out.Minutes, one)
		}
	}
	for _, n := range counts[:max(len(counts)-len(r.nodes), 0)] {
		out.Fewest += n
	}
	return out, nil
}

// scratch bounds what nodes for the pods cost if there are none yet.
func (r *scaling) scratch(ctx context.Context) (float64, error) {
	c := *r.cluster
	c.nodes, c.pods = nil, map[string]*pod{}
	for name, p := range r.pods {
		c.pods[name] = &pod{object: p.object}
	}
	return c.bound(ctx, nil)
}

// begin launches nodes for n pods, and has them run there.
func (r *scaling) begin(ctx context.Context, n int) error {
	r.now = -60 * stepsPerMinute
	web := service{name: "web", cpu: "500m", memory: "1Gi"}
	var ch change
	for i := range n {
		p := newPod("web-"+strconv.Itoa(i), "ReplicaSet", web)
		p.Spec.NodeSelector[karpv1.NodePoolLabelKey] = "default"
		p.UID = types.UID(strconv.FormatUint(r.random.Uint64(), 16))
		ch.come = append(ch.come, p)
	}
	r.apply(ch)
	placed, err := r.plan(ctx, nil)
	if err != nil {
		return err
	}
	if len(placed.Plan.Unplaced) > 0 {
		return fmt.Errorf("pods have no place: %+v", placed.Plan.Unplaced)
	}
	r.settle(&placed.Plan)
	for _, name := range slices.Sorted(maps.Keys(r.pods)) { // Pods that are Ready at different times end by their UIDs, which are drawn by lot.
		r.pods[name].object.Status.StartTime = new(metav1.NewTime(r.clock().Add(time.Duration(60+r.random.IntN(20)) * time.Second)))
	}
	r.now = 0
	return nil
}

// end ends all pods but the replicas that stay.
func (r *scaling) end(s ScaleIn) {
	before, on := maps.Clone(r.pods), map[string]int{}
	r.apply(change{fewer: []fewer{{"web", s.From - s.To}}})
	var ended []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if r.pods[name] == nil {
			ended = append(ended, before[name].node)
		}
	}
	r.random.Shuffle(len(ended), func(i, j int) { ended[i], ended[j] = ended[j], ended[i] })
	for i, node := range ended {
		on[node] = 1 + i/endsPerStep
	}
	maps.Copy(r.event, on)
}

// gone ends the nodes that are drained.
func (r *scaling) gone() {
	maps.DeleteFunc(r.nodes, func(_ string, n *node) bool { return n.gone != 0 && n.gone <= r.now })
}

// decide makes one decision and carries it out.
func (r *scaling) decide(ctx context.Context) error {
	o := consolidate.DefaultOptions()
	fleet := r.fleet(On)
	for i := range fleet {
		if r.now < r.event[fleet[i].Name]+quietSteps {
			fleet[i].Blocked, fleet[i].Soon = "a pod was added or removed lately", true
		}
	}
	decision, err := consolidate.Decide(ctx, fleet, o, r.ask)
	if err != nil {
		return err
	}
	var gone []string
	launches := false
	for i := range decision.Moves {
		m := &decision.Moves[i]
		r.avoid = m.Avoid
		launches = launches || len(m.Replacements) > 0
		for _, n := range m.Nodes {
			gone = append(gone, n.Name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	r.calm.count(r.cluster, gone)
	r.bill.Evictions += r.leave(gone)
	if r.waiting() {
		placed, err := r.plan(ctx, nil)
		if err != nil {
			return err
		}
		r.settle(&placed.Plan)
		for _, p := range placed.Plan.Placements {
			r.event[p.Node] = r.now + 1
		}
	}
	r.avoid, r.settled = nil, r.now+1
	left := stepsPerMinute / 2
	if launches {
		left += boots * stepsPerMinute
		r.settled += boots * stepsPerMinute
	}
	for _, name := range gone {
		r.nodes[name].gone = r.now + left
	}
	return nil
}

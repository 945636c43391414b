package spottrace

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// node is one that is paid.
type node struct {
	object *corev1.Node
	offer  consolidate.Offer
	// born and ready are minutes; gone is the minute from which on it is paid no longer, 0 while it stays.
	born, ready, gone int
	interrupted       bool
	// off is the minute until which the node is left alone after its move was called off, next for how long it is the next time.
	off, next int
}

// pod is one of the workload's.
type pod struct {
	object *corev1.Pod
	// node is its place, empty while it waits for one; from is where it runs until the node of its place is ready.
	node, from string
}

// world is a cluster in a minute of the replay.
type world struct {
	cfg   Config
	now   int
	pool  *karpv1.NodePool
	nodes map[string]*node
	pods  []*pod
	// base has the types and prices on demand.
	base *market.Market
	// refused has the minutes until which offerings have not settled after a refusal.
	refused map[interruption.Offering]int
	known   interruption.Known
	bought  int
	// calm are the evictions.
	calm disruption.Evictions
	// soon is when consolidation decides again because the last decision changed something.
	soon int
	// volumes is what the volumes of each node cost, in USD per hour.
	volumes float64
	result  Result
}

// families that are bought.
func families() []string { return []string{"c6i", "m6i", "r6i", "m7i", "c6a", "m6a"} }

// Market returns the types of generated traces, with the on-demand prices of the built-in catalog, in the zones.
func Market(zones []string) (*market.Market, error) {
	return marketOf(zones, func(name string) bool {
		family, size, _ := strings.Cut(name, ".")
		return slices.Contains(families(), family) && slices.Contains([]string{"large", "xlarge", "2xlarge", "4xlarge"}, size)
	})
}

// market returns the market of a trace: its types and zones.
func (c Config) market() (*market.Market, error) {
	named := c.Trace.Types()
	m, err := marketOf(c.Zones, func(name string) bool { return slices.Contains(named, name) })
	if err == nil && len(m.Types) != len(named) {
		return nil, fmt.Errorf("the built-in catalog has %d of the trace's instance types %v", len(m.Types), named)
	}
	return m, err
}

func marketOf(zones []string, bought func(instanceType string) bool) (*market.Market, error) {
	m, err := market.Read(market.Files{})
	if err != nil {
		return nil, err
	}
	m.Types = slices.DeleteFunc(slices.Clone(m.Types), func(f catalog.Facts) bool { return !bought(f.Name) })
	m.Zones = zones
	prices := map[string]float64{}
	for i := range m.Types {
		prices[m.Types[i].Name] = m.OnDemand[m.Types[i].Name]
	}
	m.OnDemand = prices
	return m, nil
}

func newWorld(cfg Config, base *market.Market) *world {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{catalog.OnDemandShareAnnotation: cfg.Share}}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot", "on-demand"}},
	}
	w := &world{cfg: cfg, pool: p, nodes: map[string]*node{}, base: base, refused: map[interruption.Offering]int{}}
	for i := range cfg.Pods {
		w.pods = append(w.pods, &pod{object: newPod(i)})
	}
	return w
}

// newPod returns a pod of the workload: one CPU and 3 GiB.
func newPod(i int) *corev1.Pod {
	name := fmt.Sprintf("web-%03d", i)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}},
	}}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("3Gi"),
	}}}}
	return p
}

// epoch is when the replay begins.
func epoch() time.Time { return time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC) }

func (w *world) clock() time.Time { return epoch().Add(time.Duration(w.now) * time.Minute) }

// quotes returns the step of the minute.
func (w *world) quotes() Step { return w.cfg.Trace[w.now/int(step.Minutes())] }

// seen returns the market as the launcher knows it: all prices, without what was refused and has not settled. Nodes on demand can be had, so the
// planner would not use that, as in plugin/catalogview.
func (w *world) seen() *market.Market {
	return w.priced(w.at(func(o interruption.Offering, _ Quote) bool { return w.refused[o] <= w.now }))
}

// everything returns the market with all prices.
func (w *world) everything() *market.Market {
	return w.priced(w.at(func(interruption.Offering, Quote) bool { return true }))
}

// priced adds what was learned of interruptions.
func (w *world) priced(m *market.Market) *market.Market {
	m.Interruptions, m.InterruptionCost = &w.known, evicted
	return m
}

// at returns the market of the minute with the spot offerings that are kept.
func (w *world) at(keep func(interruption.Offering, Quote) bool) *market.Market {
	m := *w.base
	m.Spot = map[string]map[string]float64{}
	for _, zone := range m.Zones {
		m.Spot[zone] = map[string]float64{}
	}
	for o, q := range w.quotes() {
		if keep(o, q) && m.Spot[o.Zone] != nil {
			m.Spot[o.Zone][o.InstanceType] = q.Price
		}
	}
	return &m
}

// objects returns the cluster without the nodes that go, and with their pods pending. No pod is placed on nodes to avoid.
func (w *world) objects(without, avoid []string) *input.Objects {
	out := &input.Objects{NodePools: []*karpv1.NodePool{w.pool}}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[name]
		if n.gone != 0 || slices.Contains(without, name) {
			continue
		}
		object := n.object
		if slices.Contains(avoid, name) {
			object = object.DeepCopy()
			object.Spec.Unschedulable = true
		}
		out.Nodes = append(out.Nodes, object)
	}
	for _, p := range w.pods {
		object := p.object.DeepCopy()
		if !slices.Contains(without, p.node) {
			object.Spec.NodeName = p.node
		}
		out.Pods = append(out.Pods, input.Pod{Pod: object, Shape: 1})
	}
	return out
}

// plan asks the planner about the pods that wait, those of the nodes in without included.
func (w *world) plan(ctx context.Context, without, avoid []string) (*simulate.Outcome, error) {
	return simulate.Run(ctx, w.objects(without, avoid), w.seen(), simulate.Options{PreferenceShare: 0.1, Now: w.clock()})
}

// settle launches what the plan says, and gives every pod its place.
func (w *world) settle(made *plan.Plan) {
	for i := range made.Claims {
		c := &made.Claims[i]
		w.bought++
		name := fmt.Sprintf("%s-%d", c.NodePool, w.bought)
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(c.Labels), CreationTimestamp: metav1.NewTime(w.clock())}}
		object.Labels[corev1.LabelHostname] = name
		object.Status.Allocatable, object.Status.Capacity = c.Allocatable, c.Allocatable
		object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		e := c.Expected
		w.nodes[name] = &node{object: object, born: w.now, ready: w.now + boots, next: 1, offer: consolidate.Offer{
			NodePool: c.NodePool, InstanceType: e.InstanceType, Zone: e.Zone, CapacityType: e.CapacityType,
		}}
		w.result.Launched++
		w.put(c.Members, name)
	}
	for _, p := range made.Placements {
		w.put(p.Members, p.Node)
	}
}

func (w *world) put(members []plan.Member, on string) {
	byName := map[string]*pod{}
	for _, p := range w.pods {
		byName[p.object.Name] = p
	}
	for _, m := range members {
		for _, ref := range m.Pods {
			p := byName[ref.Name]
			p.node, p.object.Status.StartTime = on, new(metav1.NewTime(w.clock()))
		}
	}
}

// leave gives a node up: its pods run there until their next node is ready, or the node is gone.
func (w *world) leave(name string, gone int) (moved int) {
	w.nodes[name].gone = gone
	for _, p := range w.pods {
		if p.node == name {
			p.node, p.from = "", name
			moved++
		}
	}
	return moved
}

// runs reports whether the pod runs in this minute.
func (w *world) runs(p *pod) bool {
	if n := w.nodes[p.node]; n != nil && n.ready <= w.now {
		return true
	}
	n := w.nodes[p.from]
	return n != nil && n.ready <= w.now && (n.gone == 0 || w.now < n.gone)
}

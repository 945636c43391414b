package day

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/billing"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/expect"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

const (
	// boots is how many minutes a node takes from its launch until pods run there.
	boots = 1
	// leaves is how many minutes a node is paid after its end was decided: its pods' new nodes boot, then it drains.
	leaves = 2
	// noticed is how many minutes more EC2 leaves a spot node after the minute of its notice.
	noticed = 1
)

// node is one that is paid.
type node struct {
	object *corev1.Node
	offer  consolidate.Offer
	// born and ready are minutes; gone is the minute when it is paid no longer, zero while it stays.
	born, ready, gone int
	// taken means that EC2 takes it back.
	taken bool
}

// pod is one that runs or waits.
type pod struct {
	object *corev1.Pod
	born   int
	// node that it has a place on; empty while it waits for one.
	node string
	// waited says that its wait has been counted, moved that it has been evicted.
	waited, moved bool
	// cost is the deletion cost that it was bound with; empty for none.
	cost string
}

// cluster is what there is in a minute of the day.
type cluster struct {
	now    int
	market *market.Market
	// commitments are those of the account; the market has them where slipway knows them.
	commitments []commitment.Commitment
	pools       []*karpv1.NodePool
	nodes       map[string]*node
	pods        map[string]*pod
	shapes      map[string]int
	// budgets are the percentages that the services' PodDisruptionBudgets let be away.
	budgets map[string]int
	// avoid are nodes that are no room for the pods that are planned: they go next.
	avoid  []string
	bought int
	bill   Bill
	// from is the minute of the day at which the replay begins.
	from int
	// calm are the evictions by NodePool.
	calm calm
	// growth of the Deployments; nil for a policy that expects no pods.
	growth *expect.Growth
	// room are the pods that are expected while a policy decides, on the nodes that have room for them.
	room map[string]*pod
	// books are kept where a day is replayed.
	books *books
	// fixed is what a node costs beside its instance, in USD per hour.
	fixed float64
	// types are the instance types by EC2NodeClass, at the prices of now.
	types map[string][]catalog.InstanceType
	// known are the NodePools as the planner knows them.
	known map[string]catalog.NodePool
	// ordered means that pods on the emptiest nodes end first.
	ordered bool
	// costs means that pods are bound with deletion costs.
	costs bool
	// steps are how many steps of the clock are a minute.
	steps int
	// scheduler binds pods that have come to nodes that have room, where a day is replayed.
	scheduler *kubeScheduler
}

func newCluster(ctx context.Context, m *market.Market, commitments []commitment.Commitment) *cluster {
	c := &cluster{
		market: m, commitments: commitments, pools: pools(len(commitments) > 0), nodes: map[string]*node{}, pods: map[string]*pod{}, shapes: map[string]int{},
		budgets: budgets(), calm: calm{}, steps: 1,
	}
	c.reprice(ctx)
	return c
}

// reprice reads the prices of now.
func (c *cluster) reprice(ctx context.Context) {
	state, _ := c.market.Catalog(ctx, &input.Objects{NodePools: c.pools})
	c.types, c.known = state.InstanceTypes, state.NodePools
	for _, list := range c.types {
		c.fixed = list[0].Charges.Fixed() // The same of all types of a class.
	}
	if c.books != nil {
		c.books.reprice(c.clock(), c.market.Spot)
	}
}

// clock is the time of the step.
func (c *cluster) clock() time.Time { return at(c.now, c.steps) }

// at is the time of a step, of which so many are a minute.
func at(step, perMinute int) time.Time {
	return time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC).Add(time.Duration(step) * time.Minute / time.Duration(perMinute))
}

// price of an offering now, with what a node costs beside its instance.
func (c *cluster) price(o consolidate.Offer) float64 {
	if o.CapacityType == karpv1.CapacityTypeSpot {
		return c.fixed + c.market.Spot[o.Zone][o.InstanceType]
	}
	return c.fixed + c.market.OnDemand[o.InstanceType]
}

// apply changes the workload: pods come, Jobs' pods end, and of those of a service that has fewer replicas the ReplicaSet controller deletes some.
func (c *cluster) apply(ch change) {
	for _, object := range ch.come {
		c.pods[object.Name] = &pod{object: object, born: c.now}
	}
	for _, name := range ch.gone {
		delete(c.pods, name)
	}
	for _, f := range ch.fewer {
		var replicas []replica
		var used map[string]float64
		if c.ordered {
			used = usedOf(c)
		}
		for _, name := range slices.Sorted(maps.Keys(c.pods)) {
			if p := c.pods[name]; p.object.Labels["app"] == f.app {
				one := replica{object: p.object, node: p.node, created: at(p.born, c.steps), used: used[p.node], cost: p.cost}
				if n := c.nodes[p.node]; n != nil && n.ready <= c.now {
					one.nodeReady = at(n.ready, c.steps)
				}
				replicas = append(replicas, one)
			}
		}
		for _, name := range deleted(replicas, f.n, c.clock()) {
			delete(c.pods, name)
		}
	}
}

// placed are the pods on nodes, as the record of the bill reads them.
func (c *cluster) placed() map[string][]bill.Pod {
	on := map[string][]*corev1.Pod{}
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		if p := c.pods[name]; p.node != "" {
			on[p.node] = append(on[p.node], p.object)
		}
	}
	out := make(map[string][]bill.Pod, len(on))
	for node, pods := range on {
		out[node] = billing.PodsOf(pods)
	}
	return out
}

// requests returns what the pods of each node request together.
func (c *cluster) requests() map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	for _, p := range c.pods {
		if p.node == "" {
			continue
		}
		if out[p.node] == nil {
			out[p.node] = corev1.ResourceList{}
		}
		addUp(out[p.node], plan.PodRequests(p.object))
		addUp(out[p.node], corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")})
	}
	return out
}

// objects returns the cluster as the planner sees it: without nodes that are being removed, and with the pods of the nodes
// in without as pending.
func (c *cluster) objects(without []string) *input.Objects {
	out := &input.Objects{NodePools: c.pools}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if n := c.nodes[name]; n.gone == 0 && !slices.Contains(without, name) {
			out.Nodes = append(out.Nodes, cordoned(n.object, slices.Contains(c.avoid, name)))
		}
	}
	all := maps.Clone(c.pods)
	maps.Copy(all, c.room)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		object, at := p.object, p.node
		if slices.Contains(without, at) {
			at = ""
		}
		if object.Spec.NodeName != at {
			object = object.DeepCopy()
			object.Spec.NodeName = at
		}
		out.Pods = append(out.Pods, input.Pod{Pod: object, Shape: c.shape(p.object)})
	}
	return out
}

// cordoned is the node, with or without a cordon.
func cordoned(n *corev1.Node, is bool) *corev1.Node {
	if !is {
		return n
	}
	n = n.DeepCopy()
	n.Spec.Unschedulable = true
	return n
}

func (c *cluster) shape(p *corev1.Pod) int {
	key := plan.ClassKey(p)
	if _, ok := c.shapes[key]; !ok {
		c.shapes[key] = len(c.shapes) + 1
	}
	return c.shapes[key]
}

// plan asks the planner about the pods that wait, those of the nodes in without included.
func (c *cluster) plan(ctx context.Context, without []string) (*simulate.Outcome, error) {
	o := simulate.Options{PreferenceShare: 0.1}
	if without == nil && c.room == nil {
		o.Expected = expected(c)
	}
	return simulate.Run(ctx, c.objects(without), c.market, o)
}

// ask implements consolidate.Ask.
func (c *cluster) ask(ctx context.Context, gone, avoid []string) (consolidate.Answer, error) {
	c.avoid = avoid
	defer func() { c.avoid = nil }()
	placed, err := c.plan(ctx, gone)
	if err != nil {
		return consolidate.Answer{}, err
	}
	out := consolidate.Answer{Existing: map[string]string{}, Unplaced: map[string]string{}}
	for i := range placed.Plan.Claims {
		claim := &placed.Plan.Claims[i]
		out.Replacements = append(out.Replacements, consolidate.Replacement{Name: claim.Name, Pods: names(claim.Members), Offer: offerOf(claim)})
	}
	for _, p := range placed.Plan.Placements {
		for _, name := range names(p.Members) {
			out.Existing[name] = p.Node
		}
	}
	for _, u := range placed.Plan.Unplaced {
		for _, ref := range u.Pods {
			out.Unplaced[ref.Namespace+"/"+ref.Name] = "no room"
		}
	}
	return out, nil
}

func names(members []plan.Member) []string {
	out := podNames(members)
	for i := range out {
		out[i] = metav1.NamespaceDefault + "/" + out[i]
	}
	return out
}

// podNames are the members' pods by name: all are in one namespace.
func podNames(members []plan.Member) []string {
	var out []string
	for _, m := range members {
		for _, ref := range m.Pods {
			out = append(out, ref.Name)
		}
	}
	return out
}

func offerOf(claim *plan.Claim) consolidate.Offer {
	e := claim.Expected
	return consolidate.Offer{NodePool: claim.NodePool, InstanceType: e.InstanceType, Zone: e.Zone, CapacityType: e.CapacityType, Price: e.Price}
}

// settle launches what the plan says, and gives every pod its place.
func (c *cluster) settle(made *plan.Plan) {
	for i := range made.Claims {
		claim := &made.Claims[i]
		c.bought++
		name := fmt.Sprintf("%s-%d", claim.NodePool, c.bought)
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(claim.Labels), CreationTimestamp: metav1.NewTime(c.clock())}}
		object.Labels[corev1.LabelHostname] = name
		object.Spec.Taints = claim.Taints
		object.Status.Allocatable, object.Status.Capacity = claim.Allocatable, claim.Allocatable
		object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		c.nodes[name] = &node{object: object, offer: offerOf(claim), born: c.now, ready: c.now + boots*c.steps}
		c.bill.Launched++
		if c.books != nil {
			c.books.launch(object, offer{claim.Expected.InstanceType, claim.Expected.Zone, claim.Expected.CapacityType == karpv1.CapacityTypeSpot}, c.clock())
		}
		c.put(name, podNames(claim.Members)...)
		if c.costs {
			setCosts(c.pods, claim.Members, object)
		}
	}
	for _, p := range made.Placements {
		c.put(p.Node, podNames(p.Members)...)
	}
}

// put gives pods their place on a node. The first one ends their wait, when the node is ready.
func (c *cluster) put(on string, pods ...string) {
	for _, name := range pods {
		p := c.pods[name]
		p.node, p.cost, p.object.Status.StartTime = on, "", new(metav1.NewTime(c.clock()))
		if !p.waited {
			p.waited = true
			c.bill.Pending += 60 * float64(max(c.nodes[on].ready, c.now)-p.born) / float64(c.steps)
		}
	}
}

// leave gives nodes up: their pods wait for a place, and they are paid until they are drained. A drain lasts a minute longer for each
// time that a PodDisruptionBudget makes it wait for pods that have moved to be ready.
func (c *cluster) leave(names []string) (moved int) {
	each := map[string]map[string]int{}
	for _, name := range names {
		each[name] = map[string]int{}
	}
	for _, p := range c.pods {
		if of := each[p.node]; of != nil {
			of[p.object.Labels["app"]]++
			p.node = ""
			moved++
		}
	}
	replicas := c.replicas()
	for name, of := range each {
		waits := 0
		for app, n := range of {
			if most := c.away(app, replicas[app]); most > 0 {
				waits = max(waits, (n-1)/most)
			}
		}
		c.nodes[name].gone = c.now + leaves + waits
	}
	return moved
}

// replicas of each service and Job.
func (c *cluster) replicas() map[string]int {
	out := map[string]int{}
	for _, p := range c.pods {
		out[p.object.Labels["app"]]++
	}
	return out
}

// away is how many pods of a service its PodDisruptionBudget lets be away at a time; all where it has none.
func (c *cluster) away(app string, replicas int) int {
	percent, ok := c.budgets[app]
	if !ok {
		return replicas
	}
	return (replicas*percent + 99) / 100
}

// waiting says whether any pod has no place.
func (c *cluster) waiting() bool {
	for _, p := range c.pods {
		if p.node == "" {
			return true
		}
	}
	return false
}

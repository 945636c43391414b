package simulate

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/workload"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/movebound"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// ConsolidateOptions are the arguments of a consolidation.
type ConsolidateOptions struct {
	// Options are the planner's.
	Options
	// Consolidate bounds which moves are worth it.
	Consolidate consolidate.Options
	// PodAge is the age from which pods are moved almost as readily as old ones, unless their NodePool's annotation
	// slipway.dev/consolidation-pod-age has another one. Zero, the default, means that all are.
	PodAge time.Duration
	// PodAgeOfAll uses PodAge for all NodePools, whatever their annotations.
	PodAgeOfAll bool
	// DisruptBare means that pods without a controller do not keep a node.
	DisruptBare bool
}

// podAge returns that of the pods on a NodePool's nodes.
func (o *ConsolidateOptions) podAge(pool *karpv1.NodePool) time.Duration {
	if o.PodAgeOfAll {
		return o.PodAge
	}
	return catalog.AgeOf(pool.Annotations, catalog.PodAgeAnnotation, o.PodAge)
}

// Saving is the outcome of a consolidation. Result converts it for output.
type Saving struct {
	// Moves are in their order. Those of one step can be made at once, within the NodePools' budgets. A step begins when the
	// previous one is done.
	Moves []StepMove
	// Kept are the nodes that stay, with the reason.
	Kept []consolidate.Kept
	// Before and After are the nodes of NodePools now and after all moves.
	Before, After []consolidate.Node
	// AnewPerHour is what the nodes of NodePools would cost, in USD per hour, if all pods that may move were planned again at
	// once. A sequence of moves need not reach it, since moves also count what they disturb.
	AnewPerHour float64
	// Problems of the input.
	Problems []input.Problem
	// Notes are sentences about what was assumed.
	Notes []string
	// Pending is the number of pending pods of the input that do not fit the existing nodes. Nothing is launched for them here.
	Pending int
	// Steps is the number of decisions, Questions how often the planner was asked for them.
	Steps, Questions int
	// Unfinished means that more moves would follow after the last step.
	Unfinished bool
	// Took is the duration of the decisions, after loading.
	Took time.Duration
	// Owners are the workloads of all pods, such as "Deployment shop/web", by their namespace/name.
	Owners map[string]string
	// Outside is how many nodes belong to no NodePool of the input.
	Outside int
	// first and last are the objects now and after all moves, at the prices of cat, for Nodes.
	first, last *input.Objects
	cat         catalog.State
}

// StepMove is a move with the number of its step.
type StepMove struct {
	consolidate.Move
	// Step counts from 1.
	Step int
}

// Consolidate decides which of the input's nodes to remove, and what would be launched for their pods instead, step by step until
// nothing more can be saved. Pending pods are placed on existing nodes first.
func Consolidate(ctx context.Context, objects *input.Objects, m *market.Market, o ConsolidateOptions) (*Saving, error) {
	cat, problems := m.Catalog(ctx, objects)
	start := time.Now()
	_, unreadable := asleepNow(objects, o.Now)
	objects, notes := fallAsleep(objects, o.Now)
	settled, pending, err := withPending(ctx, objects, cat, o.Options)
	if err != nil {
		return nil, err
	}
	out := &Saving{Problems: distinct(slices.Concat(objects.Problems, m.Problems, problems, unreadable)), Notes: slices.Concat(m.Notes, objects.Notes, notes), Pending: pending, first: settled, cat: cat}
	c := &cluster{objects: settled, cat: cat, o: o.Options, shapes: map[string]int{}}
	for _, n := range objects.Nodes {
		c.o.taken = append(c.o.taken, n.Name)
	}
	seen := observe(settled, o.Now)
	seen.disruptBare = o.DisruptBare
	out.Before = seen.fleet(cat, o.podAge)
	out.Owners, out.Outside = owners(objects), len(objects.Nodes)-len(out.Before)
	out.After = out.Before
	if out.AnewPerHour, err = c.fromScratch(ctx, out.Before); err != nil {
		return nil, err
	}
	o.Consolidate.Troubled, o.Consolidate.Lasts = consolidate.Troubled(cat, o.Now), consolidate.Lasts(cat)
	calm := map[string]disruption.Evictions{}
	for {
		o.Consolidate.Allowed, problems = seen.allowances(objects.NodePools)
		decision, err := consolidate.Decide(ctx, out.After, o.Consolidate, c.ask)
		if err != nil {
			return nil, err
		}
		out.Questions += decision.Questions
		out.Kept = decision.Kept
		if len(decision.Moves) == 0 {
			break
		}
		if out.Steps == maxSteps {
			out.end(decision.Moves)
			break
		}
		began := o.Now.Add(time.Duration(out.Steps) * o.Consolidate.Overlap)
		out.Steps++
		for _, move := range decision.Moves {
			out.Moves = append(out.Moves, StepMove{move, out.Steps})
			countEvictions(calm, move, began)
		}
		if err := c.apply(ctx, decision.Moves, o.Now); err != nil {
			return nil, err
		}
		seen = observe(c.objects, o.Now)
		seen.disruptBare = o.DisruptBare
		out.After = seen.fleet(cat, o.podAge)
		strain(out.After, calm, o.Consolidate.EvictionCost, began.Add(o.Consolidate.Overlap))
	}
	out.last = c.objects
	out.Problems = distinct(slices.Concat(out.Problems, problems))
	out.Took = time.Since(start)
	return out, nil
}

// owners returns the workloads of pods: the object that a user has written, if that can be found, and not what its controller
// made.
func owners(objects *input.Objects) map[string]string {
	out := make(map[string]string, len(objects.Pods))
	for _, p := range objects.Pods {
		name := p.Namespace + "/" + p.Name
		out[name] = "Pod " + name
		if buffer := buffers.NameOf(p.Pod); buffer != "" {
			out[name] = "CapacityBuffer " + buffer
		}
		if kind, of := workload.Of(p.Pod); kind != "" {
			out[name] = kind + " " + p.Namespace + "/" + of
		}
	}
	return out
}

// withPending binds the pending pods that fit an existing node to it and counts them as running. It leaves out the others, and
// returns their number.
func withPending(ctx context.Context, objects *input.Objects, cat catalog.State, o Options) (*input.Objects, int, error) {
	out := *objects
	out.Pods = nil
	waiting := false
	for _, p := range objects.Pods {
		waiting = waiting || p.Spec.NodeName == ""
	}
	if !waiting {
		out.Pods = objects.Pods
		return &out, 0, nil
	}
	placed, err := place(ctx, objects, cat, o)
	if err != nil {
		return nil, 0, err
	}
	node := map[string]string{}
	for _, p := range placed.Plan.Placements {
		if p.InFlight {
			continue
		}
		for _, name := range podsOf(p.Members) {
			node[name] = p.Node
		}
	}
	left := 0
	for _, p := range objects.Pods {
		if p.Spec.NodeName == "" {
			at := node[p.Namespace+"/"+p.Name]
			if at == "" {
				if !p.Booked { // Its room is lost, and no node would be launched for it.
					left++
				}
				continue
			}
			p.Pod, p.Booked = started(onNode(p.Pod, at)), false // It has its room, which moves with the node.
		}
		out.Pods = append(out.Pods, p)
	}
	return &out, left, nil
}

// onNode returns the pod bound to a node, or to none.
func onNode(p *corev1.Pod, node string) *corev1.Pod {
	if p.Spec.NodeName == node {
		return p
	}
	moved := *p
	moved.Spec.NodeName = node
	return &moved
}

// cluster plans what the pods of nodes would need if these were removed.
type cluster struct {
	objects *input.Objects
	cat     catalog.State
	o       Options
	// shapes are numbers for pods by the key of their class, below those of the input.
	shapes map[string]int
}

// ask implements consolidate.Ask. The NodePools' limits do not count the removed nodes, as in plugin/provision.
func (c *cluster) ask(ctx context.Context, gone, avoid []string) (consolidate.Answer, error) {
	placed, _, err := c.without(ctx, gone, avoid)
	if err != nil {
		return consolidate.Answer{}, err
	}
	return placed.Answer(), nil
}

// without plans the pods of the nodes in gone, and places none on those in avoid. It also returns the objects that are left.
func (c *cluster) without(ctx context.Context, gone, avoid []string) (*Outcome, *input.Objects, error) {
	after := c.left(gone)
	room := *after
	room.Nodes = cordoned(after.Nodes, avoid)
	placed, err := place(ctx, &room, clusterview.Recounted(c.cat, nil, nodesNamed(c.objects.Nodes, gone)), c.o)
	return placed, after, err
}

// nodesNamed returns the nodes of these names.
func nodesNamed(nodes []*corev1.Node, names []string) []*corev1.Node {
	var out []*corev1.Node
	have := sets.New(names...)
	for _, n := range nodes {
		if have.Has(n.Name) {
			out = append(out, n)
		}
	}
	return out
}

// cordoned returns the nodes with the named ones cordoned: they take no pods, but their pods are neighbors.
func cordoned(nodes []*corev1.Node, names []string) []*corev1.Node {
	out := slices.Clone(nodes)
	for i, n := range out {
		if slices.Contains(names, n.Name) {
			out[i] = n.DeepCopy()
			out[i].Spec.Unschedulable = true
		}
	}
	return out
}

// fromScratch returns the bill if all pods that may move were planned at once.
func (c *cluster) fromScratch(ctx context.Context, fleet []consolidate.Node) (float64, error) {
	var gone []string
	stay := 0.0
	for i := range fleet {
		if n := &fleet[i]; n.Blocked == "" {
			gone = append(gone, n.Name)
		} else {
			stay += n.Price
		}
	}
	placed, _, err := c.without(ctx, gone, nil)
	if err != nil {
		return 0, err
	}
	return stay + placed.Plan.CostPerHour, nil
}

// apply makes the moves: the nodes are removed, their replacements exist, and the pods run on their targets.
func (c *cluster) apply(ctx context.Context, moves []consolidate.Move, now time.Time) error {
	var gone, avoid []string
	for _, m := range moves {
		if len(m.Targets) > 0 {
			avoid = m.Avoid // All moves of a decision have the same.
		}
		for _, n := range m.Nodes {
			gone = append(gone, n.Name)
		}
	}
	// The same question as the decision's last one gets the same answer.
	placed, after, err := c.without(ctx, gone, avoid)
	if err != nil {
		return err
	}
	at, stayed := placed.Answer().Existing, len(after.Nodes)
	for i := range placed.Plan.Claims {
		claim := &placed.Plan.Claims[i]
		after.Nodes = append(after.Nodes, nodeOf(claim, now))
		c.o.taken = append(c.o.taken, claim.Name)
		for _, name := range podsOf(claim.Members) {
			at[name] = claim.Name
		}
	}
	for i, p := range after.Pods {
		if to, ok := at[p.Namespace+"/"+p.Name]; ok && p.Spec.NodeName == "" {
			after.Pods[i].Pod = onNode(p.Pod, to)
		}
	}
	c.cat = clusterview.Recounted(c.cat, after.Nodes[stayed:], nodesNamed(c.objects.Nodes, gone))
	c.objects = after
	return nil
}

// nodeOf returns the Node that a claim becomes.
func nodeOf(claim *plan.Claim, now time.Time) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Labels: maps.Clone(claim.Labels), CreationTimestamp: metav1.NewTime(now)}}
	out.Labels[corev1.LabelHostname] = claim.Name
	out.Spec.Taints = claim.Taints
	out.Status.Allocatable, out.Status.Capacity = claim.Allocatable, claim.Allocatable
	out.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return out
}

func (c *cluster) shape(p *corev1.Pod) int {
	key := plan.ClassKey(p)
	if _, ok := c.shapes[key]; !ok {
		c.shapes[key] = -1 - len(c.shapes)
	}
	return c.shapes[key]
}

// Answer returns the plan as the answer to a question of a consolidation.
func (o *Outcome) Answer() consolidate.Answer {
	out := consolidate.Answer{Existing: map[string]string{}, Unplaced: map[string]string{}, Refused: movebound.Refused(&o.Plan, &o.Input)}
	for _, c := range o.Plan.Claims {
		out.Replacements = append(out.Replacements, consolidate.Replacement{
			Name: c.Name, Pods: podsOf(c.Members),
			Offer: consolidate.Offer{
				NodePool: c.NodePool, InstanceType: c.Expected.InstanceType, Zone: c.Expected.Zone,
				CapacityType: c.Expected.CapacityType, Price: c.Expected.Price,
			},
		})
	}
	for _, p := range o.Plan.Placements {
		for _, name := range podsOf(p.Members) {
			out.Existing[name] = p.Node
		}
	}
	for _, u := range o.Plan.Unplaced {
		why := "no NodePool runs it"
		if len(u.Reasons) > 0 {
			why = u.Reasons[0].Message
		}
		for _, ref := range u.Pods {
			out.Unplaced[ref.Namespace+"/"+ref.Name] = why
		}
	}
	for _, h := range o.Held {
		out.Unplaced[h.Pod] = h.Reason
	}
	return out
}

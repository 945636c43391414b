package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/cover"
	"github.com/slipway-k8s/slipway/plugin/consolidate/movebound"
	"github.com/slipway-k8s/slipway/plugin/expect"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

const (
	// giveWayAtMost is how long one question of a decision waits for pods that wait for a node to be planned.
	giveWayAtMost = 2 * time.Second
	giveWayPoll   = 20 * time.Millisecond
	// decideAtMost bounds one decision.
	decideAtMost = 50 * time.Second
	// askShare of planTimeout bounds the planning of one question, a second by default, and askPerPod is what each pod of it adds: a plan that is
	// cut short moves fewer pods. 1,000 pods are planned in half a second.
	askShare  = 5
	askPerPod = 2 * time.Millisecond
	// restAfter is for how long consolidation rests after a decision, as a multiple of what its planning took: whatever runs in the
	// cluster, it takes a fifth of a CPU at most.
	restAfter = 4
	// restUnasked is up to what rest a question waits; in a longer one it is answered at once, with no decision.
	restUnasked = 2 * time.Second
)

// consolidatorConfig is what a consolidator needs. All fields are required.
type consolidatorConfig struct {
	queue  *queue
	coming *comingPods
	needs  *needs
	// planning makes and verifies the plans.
	planning *provision.Provisioner
	// askAtMost bounds the planning of one question, but for what its pods add.
	askAtMost time.Duration
	link      *link.Link
	metrics   *metrics
	// sleep knows which pods would wait when they are created again, as their namespaces sleep.
	sleep *sleepers
}

// consolidator decides which nodes to give up, in a goroutine of its own: it works on a snapshot, promises nothing, and gives
// way to the planner.
type consolidator struct {
	consolidatorConfig
	snapshot *snapshot
	todo     chan decision
	// busy means that the planner has pods to plan. Those of a gang that lacks pods are none.
	busy atomic.Bool
	// rest is when the next decision may be made.
	rest time.Time
}

// decision is one that is asked for, with what the planner's goroutine has at the time.
type decision struct {
	question *api.Question
	catalog  catalog.State
	// reserved is the room for pods of nodes that terminate.
	reserved reservations.Snapshot
	// buffers are where the pods of capacity buffers have room.
	buffers *buffers.Table
	// expected are pods that Deployments are expected to add.
	expected []expect.Expected
}

func newConsolidator(c consolidatorConfig) *consolidator {
	return &consolidator{consolidatorConfig: c, snapshot: c.queue.newSnapshot(), todo: make(chan decision, 1)}
}

// put hands a question over. The planner's goroutine alone calls it. One at a time is worked on.
func (c *consolidator) put(ctx context.Context, d decision, synced bool) {
	q, message := d.question, "another decision is being made"
	if why := unknown(q.GetConsolidate(), d.catalog, synced); why != "" {
		message = why
	} else {
		select {
		case c.todo <- d:
			return
		default:
		}
	}
	reply(ctx, c.link, &api.Answer{Id: q.GetId(), Kind: &api.Answer_Consolidate{Consolidate: &api.ConsolidateAnswer{Message: message}}})
}

// unknown returns what the question rests on and the scheduler does not know yet. Empty for nothing.
func unknown(q *api.Consolidate, cat catalog.State, synced bool) string {
	if !synced {
		return "the catalog is not known yet"
	}
	for _, a := range q.GetAllowances() {
		if pool, ok := cat.NodePools[a.GetNodePool()]; ok && pool.Generation < a.GetGeneration() {
			return fmt.Sprintf("NodePool %s is not known yet as it is now", a.GetNodePool())
		}
	}
	return ""
}

// run answers until the context ends.
func (c *consolidator) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-c.todo:
			reply(ctx, c.link, &api.Answer{Id: d.question.GetId(), Kind: &api.Answer_Consolidate{Consolidate: c.safe(ctx, d)}})
		}
	}
}

func (c *consolidator) safe(ctx context.Context, d decision) (answer *api.ConsolidateAnswer) {
	defer func() {
		if cause := recover(); cause != nil {
			c.metrics.panicked(klog.FromContext(ctx), pointConsolidate, cause)
			answer = &api.ConsolidateAnswer{Message: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	if left := time.Until(c.rest); left > restUnasked {
		return &api.ConsolidateAnswer{Message: fmt.Sprintf("the last decision took much planning: the next is made in %s", left.Round(time.Second))}
	} else if left > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(left):
		}
	}
	ctx, cancel := context.WithTimeout(ctx, decideAtMost)
	defer cancel()
	out, err := c.decide(ctx, d)
	if err != nil {
		return &api.ConsolidateAnswer{Message: err.Error()}
	}
	return out
}

// decide looks at the cluster once, and asks the planner about that.
func (c *consolidator) decide(ctx context.Context, d decision) (*api.ConsolidateAnswer, error) {
	if err := c.snapshot.update(ctx); err != nil {
		return nil, fmt.Errorf("snapshot of the scheduler's cache: %w", err)
	}
	q := d.question.GetConsolidate()
	o := consolidate.DefaultOptions()
	o.Payback, o.MinSaving, o.SpotToSpot = time.Duration(q.GetPayback())*time.Millisecond, q.GetMinSaving(), q.GetSpotToSpot()
	o.Troubled, o.Lasts = consolidate.Troubled(d.catalog, time.Now()), consolidate.Lasts(d.catalog)
	o.Allowed = map[string]consolidate.Allowance{}
	for _, a := range q.GetAllowances() {
		o.Allowed[a.GetNodePool()] = consolidate.Allowance{Empty: int(a.GetEmpty()), Underutilized: int(a.GetUnderutilized())}
	}
	began := time.Now()
	if err := c.keepExpected(ctx, d); err != nil {
		klog.FromContext(ctx).Error(err, "No room is kept for pods that are expected")
	}
	worked := time.Since(began)
	nodes, pods := c.fleet(q.GetNodes(), d)
	a := &asker{consolidator: c, decision: d, pods: pods, entries: make(map[string][]intake.Entry, len(pods)), terminating: setOf(d.question.GetConsolidate().GetAvoid()), worked: worked}
	defer func() { c.rest = time.Now().Add(restAfter * a.worked) }()
	found, err := consolidate.Decide(ctx, nodes, o, a.ask)
	if err != nil {
		return nil, err
	}
	return encodeDecision(found, o), nil
}

// fleet completes what the launcher reports of its nodes with the scheduler's view of them, and returns the pods that move by their
// names.
func (c *consolidator) fleet(reported []*api.FleetNode, d decision) ([]consolidate.Node, map[string][]*corev1.Pod) {
	out := make([]consolidate.Node, 0, len(reported))
	moving, now := make(map[string][]*corev1.Pod, len(reported)), time.Now()
	for _, t := range reported {
		info, err := c.snapshot.Get(t.GetName())
		if err != nil || info.Node() == nil {
			continue
		}
		node := consolidate.Node{Name: t.GetName(), Offer: offerOf(info.Node()), Policy: consolidate.Policy(t.GetPolicy()), Blocked: t.GetBlocked(), Soon: t.GetSoon(), EvictionCost: t.GetEvictionCost()}
		var all []*corev1.Pod
		for _, pi := range info.GetPods() {
			pod := pi.GetPod()
			all = append(all, pod)
			if !disruption.Occupies(pod) {
				continue
			}
			moving[node.Name] = append(moving[node.Name], pod)
			node.Pods = append(node.Pods, consolidate.Pod{
				Name: pod.Namespace + "/" + pod.Name, Weight: consolidate.Weight(pod), CPU: consolidate.RequestedCPU(pod),
				Fresh: consolidate.Fresh(pod, now, time.Duration(t.GetPodAge())*time.Millisecond),
			})
		}
		for _, pod := range d.buffers.On("", node.Name) {
			all, moving[node.Name] = append(all, pod), append(moving[node.Name], pod)
			node.Pods = append(node.Pods, consolidate.Pod{
				Name: pod.Namespace + "/" + pod.Name, Weight: consolidate.Weight(pod), CPU: consolidate.RequestedCPU(pod), Fresh: 1,
			})
		}
		node.Used = consolidate.Used(info.Node(), all)
		node.SetPrice(d.catalog, all)
		if node.Blocked == "" || node.Soon {
			why := c.blocked(&node, moving[node.Name], d.reserved, now)
			node.Blocked, node.Soon = cmp.Or(node.Blocked, why), node.Soon && (why == "" || why == disruption.Terminating(moving[node.Name]))
		}
		out = append(out, node)
	}
	cover.Lower(d.catalog, out, c.labels(d.catalog))
	return out, moving
}

// labels returns those of all nodes, in-flight ones included: commitments pay for them as well.
func (c *consolidator) labels(cat catalog.State) map[string]map[string]string {
	out := map[string]map[string]string{}
	if len(cat.Commitments) == 0 {
		return out
	}
	infos, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return out // A list from memory: no node is covered then, and moves look as if nothing was committed.
	}
	for _, info := range infos {
		if node := info.Node(); node != nil {
			out[node.Name] = node.Labels
		}
	}
	cover.AddInFlight(out, cat.InFlight)
	return out
}

// blocked returns what keeps the node from being given up that the launcher cannot see. Empty for nothing.
func (c *consolidator) blocked(n *consolidate.Node, pods []*corev1.Pod, reserved reservations.Snapshot, now time.Time) string {
	if why := n.Unpriced(); why != "" {
		return why
	}
	if len(reserved.On("", n.Name)) > 0 {
		return "room on the node is reserved for pods of another one that terminates"
	}
	if nominated := c.queue.nominated(n.Name); len(nominated) > 0 {
		return fmt.Sprintf("pod %s is nominated to the node", klog.KObj(nominated[0].GetPod()))
	}
	for _, pod := range pods {
		if !c.queue.profiles.plans(pod) {
			return fmt.Sprintf("pod %s is another scheduler's (%s)", klog.KObj(pod), pod.Spec.SchedulerName)
		}
		if pod.Spec.NodeName == "" {
			continue // A buffer's: that does not sleep with its namespace.
		}
		if waits := c.sleep.replacement(pod, now); waits != "" {
			return fmt.Sprintf("the replacement of pod %s would wait: %s", klog.KObj(pod), waits)
		}
	}
	return disruption.Terminating(pods)
}

// asker answers what one decision asks, all about the same moment.
type asker struct {
	*consolidator
	decision
	pods map[string][]*corev1.Pod
	// entries are the same pods, as questions ask about them.
	entries map[string][]intake.Entry
	// free is a pod as if it was on no node.
	free corev1.Pod
	// terminating are nodes that terminate soon: they are no room for pods that move.
	terminating map[string]bool
	// worked is how long planning took for the decision's questions.
	worked time.Duration
}

// ask implements consolidate.Ask.
func (a *asker) ask(ctx context.Context, gone, avoid []string) (consolidate.Answer, error) {
	a.giveWay(ctx)
	began := time.Now()
	defer func() { a.worked += time.Since(began) }()
	out := consolidate.Answer{Existing: map[string]string{}, Unplaced: map[string]string{}}
	pods := 0
	for _, name := range gone {
		pods += len(a.pods[name])
	}
	entries := make([]intake.Entry, 0, pods)
	for _, name := range gone {
		entries = append(entries, a.entriesOf(name)...)
	}
	req, err := a.needs.request(entries, a.catalog, a.snapshot)
	if err != nil {
		return out, err
	}
	onNone(req.Classes)
	req.Now = time.Now()
	req.Cluster.Going, req.Cluster.Kept = setOf(gone), a.coming.kept(req.Now, a.reserved.Each, a.buffers.Each)
	req.Cluster.TaintsGo = true
	req.Cluster.Room = func(name string) bool { return !a.terminating[name] && !slices.Contains(avoid, name) }
	within, cancel := context.WithTimeout(ctx, a.askAtMost+time.Duration(len(entries))*askPerPod)
	defer cancel()
	result, err := a.planning.Provision(within, req)
	if err != nil {
		return out, fmt.Errorf("planning: %w", err)
	}
	readPlan(&out, result.Plan)
	out.Refused = movebound.Refused(&result.Plan, &result.Input)
	out.CutShort = result.Plan.CutShort && within.Err() != nil
	return out, ctx.Err()
}

// entriesOf returns the pods of a node with the classes that they have on none. All questions of the decision share them, and no pod is copied.
func (a *asker) entriesOf(node string) []intake.Entry {
	out, ok := a.entries[node]
	if ok {
		return out
	}
	out = make([]intake.Entry, 0, len(a.pods[node]))
	for _, pod := range a.pods[node] {
		ours := a.queue.profiles.ours(pod)
		a.free = *ours
		a.free.Spec.NodeName = ""
		out = append(out, intake.Entry{Pod: ours, Class: plan.ClassKey(&a.free)})
	}
	a.entries[node] = out
	return out
}

// onNone makes the pods that stand for their classes pods without a node.
func onNone(classes []plan.Class) {
	for i := range classes {
		if p := classes[i].Pod; p.Spec.NodeName != "" {
			free := *p
			free.Spec.NodeName = ""
			classes[i].Pod = &free
		}
	}
}

// giveWay waits while pods wait for a node.
func (c *consolidator) giveWay(ctx context.Context) {
	for end := time.Now().Add(giveWayAtMost); c.busy.Load() && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(giveWayPoll):
		}
	}
}

// readPlan translates a plan.
func readPlan(out *consolidate.Answer, p plan.Plan) {
	names := func(members []plan.Member) (list []string) {
		for _, m := range members {
			for _, ref := range m.Pods {
				list = append(list, ref.Namespace+"/"+ref.Name)
			}
		}
		return list
	}
	for _, c := range p.Claims {
		out.Replacements = append(out.Replacements, consolidate.Replacement{
			Name: c.Name, Pods: names(c.Members), Cost: c.Cost,
			Offer: consolidate.Offer{
				NodePool: c.NodePool, InstanceType: c.Expected.InstanceType, Zone: c.Expected.Zone,
				CapacityType: c.Expected.CapacityType, Price: c.Expected.Price,
			},
		})
	}
	for _, pl := range p.Placements {
		for _, name := range names(pl.Members) {
			out.Existing[name] = pl.Node
		}
	}
	for _, u := range p.Unplaced {
		why := explain.Unplaced(u, "").Text()
		for _, ref := range u.Pods {
			out.Unplaced[ref.Namespace+"/"+ref.Name] = why
		}
	}
}

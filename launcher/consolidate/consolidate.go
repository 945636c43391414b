package consolidate

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/view"
)

const (
	// reason is the disruption reason of all moves of this package in budgets, why the same in metrics. There, nodes without pods are empty.
	reason = karpv1.DisruptionReasonUnderutilized
	why    = "underutilized"
	empty  = "empty"
	// staleAfter is when a decision is repeated although no object has changed: prices change, and reservations of the
	// scheduler expire. After a change, decisions are repeated sooner: after one period, then two, then four.
	staleAfter = 4 * time.Minute
)

// Asker asks the scheduler; *server.Server is one.
type Asker interface {
	// Consolidate asks which nodes are worth removing.
	Consolidate(ctx context.Context, q *api.Consolidate) (*api.ConsolidateAnswer, error)
}

// Mover carries out moves; *disrupt.Executor is one.
type Mover interface {
	// Start accepts a move.
	Start(ctx context.Context, m disrupt.Move) error
	// Moving reports whether a NodeClaim is in a move.
	Moving(claim types.UID) bool
	// NotBefore returns when a NodeClaim whose move was called off may be moved again.
	NotBefore(claim types.UID) time.Time
	// Settling reports whether a move is in progress whose pods have no reservation yet.
	Settling() bool
}

// Ledger counts the disruption budgets; *budget.Ledger is one.
type Ledger interface {
	// Allowed returns how many more nodes of each NodePool may be disrupted now for each of the reasons.
	Allowed(ctx context.Context, reasons ...karpv1.DisruptionReason) (map[karpv1.DisruptionReason]map[string]int, error)
}

// Metrics count decisions; *voluntary.Metrics is one.
type Metrics interface {
	// Eligible sets how many nodes could be disrupted for a reason.
	Eligible(reason string, nodes int)
	// Evaluated observes how long a decision took.
	Evaluated(reason, consolidationType string, took time.Duration)
	// Looked sets how long ago a decision looked at the node that has waited longest.
	Looked(oldest time.Duration)
	// TimedOut counts a decision that ran out of time.
	TimedOut(consolidationType string)
	// Judged counts a move for a NodePool that would lose nodes.
	Judged(approved bool, pool, policy string)
	// Scored observes the score of a move in a NodePool with consolidationPolicy Balanced.
	Scored(approved bool, pool, policy string, score float64)
}

// Settings are set by the user.
type Settings struct {
	// Period is the time between two looks at the cluster.
	Period time.Duration
	// Payback is the longest time in which a move's savings must exceed its cost.
	Payback time.Duration
	// MinSaving is the least saving of a move, in USD per hour.
	MinSaving float64
	// NodeAge is the least age of a node that consolidation may remove.
	NodeAge time.Duration
	// PodAge sets how much more it costs to move a young pod. A pod of this age counts twice, an older one less.
	PodAge time.Duration
	// SpotToSpot allows spot nodes to be replaced by other spot nodes.
	SpotToSpot bool
	// DisruptBare means that pods without a controller do not keep a node: they end with it.
	DisruptBare bool
}

// Config holds the dependencies of a Consolidator. Every field is required but the last three.
type Config struct {
	// Client reads from the cache, with the indexes of package index.
	Client client.Client
	// Cache reads pods, NodeClaims and Nodes.
	Cache index.Cache
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Asker asks the scheduler.
	Asker Asker
	// Mover carries out moves.
	Mover Mover
	// Ledger of the disruption budgets.
	Ledger Ledger
	// Metrics count decisions.
	Metrics Metrics
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Before returns what was decided before this process led.
	Before func(ctx context.Context) ([]view.Decision, error)
	// Settings of the user.
	Settings Settings
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may
	// terminate all.
	Ours func(claim *karpv1.NodeClaim) bool
	// Needed returns why a node without pods stays, such as room of a CapacityBuffer; empty where nothing keeps it. Nil means that nothing keeps any.
	Needed func(claim *karpv1.NodeClaim) string
	// Decided is called with each move when the deletion of its nodes begins, in any goroutine: its NodeClaims, what it saves in USD per hour, how many pods it
	// evicts, and what is done with them. Nil calls nothing.
	Decided func(claims []*karpv1.NodeClaim, saving float64, evictions int, message string)
}

// Consolidator removes and replaces nodes to reduce the cost of the cluster. It belongs to Run's goroutine.
type Consolidator struct {
	config Config
	// last is the fleet's sum at the last decision, and at the time of that decision. After again it is repeated although
	// the sum is the same.
	last  uint64
	at    time.Time
	again time.Duration
	// seed is that of the sums.
	seed maphash.Seed
	// pods are those on each node.
	pods index.PerNode[podsOnNode]
	// budgets reads PodDisruptionBudgets.
	budgets index.Budgets
	// seen is the fleet's sum at the last look, took how long that took, and busy whether the fleet had changed since the one before.
	seen uint64
	took time.Duration
	busy bool
	// outlook is what was decided last, for others to read.
	outlook atomic.Pointer[view.Consolidation]
	// recorded are the Events about nodes that stay, and about pods' grace periods.
	recorded calm.Events
	// looks are when the nodes were last looked at.
	looks calm.Looks
	// evicted are the evictions of moves that have deleted nodes, also by replicas that led before, and begun those that are not counted there yet.
	evicted calm.Memory
	begun   calm.Begun
	// unrest is since when pods come to nodes or leave them.
	unrest calm.Unrest
	// turn is how many nodes the next decision is asked about.
	turn calm.Turn
}

// New returns a Consolidator; Run starts it.
func New(c Config) (*Consolidator, error) {
	parts := c.Client != nil && c.Cache.Complete() && c.Guard != nil && c.Asker != nil && c.Mover != nil
	if !parts || c.Ledger == nil || c.Metrics == nil || c.Events == nil || c.Before == nil {
		return nil, errors.New("consolidate: Client, Cache, Guard, Asker, Mover, Ledger, Metrics, Events and Before are required")
	}
	if c.Settings.Period <= 0 || c.Settings.Payback <= 0 {
		return nil, errors.New("consolidate: Settings.Period and Settings.Payback must be positive")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	if c.Needed == nil {
		c.Needed = func(*karpv1.NodeClaim) string { return "" }
	}
	return &Consolidator{config: c, seed: maphash.MakeSeed(), recorded: calm.Events{}, evicted: calm.NewMemory(), unrest: calm.Unrest{}}, nil
}

// Run decides once per Period, or less often where looking at the fleet takes long, until ctx ends.
func (c *Consolidator) Run(ctx context.Context) error {
	for {
		if _, cancel, leads := c.config.Guard.Context(ctx); leads {
			cancel()
		} else {
			c.looks, c.evicted = nil, calm.NewMemory()
			c.begun.Count(calm.Evictions{}) // They are read with those of others.
			c.config.Metrics.Looked(0)
			c.outlook.Store(nil)
		}
		// A decision has no effects of its own. The mover carries out moves, under leadership.
		effects, cancel, err := c.config.Guard.Wait(ctx)
		if err == nil {
			if err := c.once(effects); err != nil && effects.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Consolidation decision failed, will retry", "err", err)
			}
			cancel()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.pause()):
		}
	}
}

const (
	// changing and resting are the least ratios of the pause between two looks at the fleet to what a look takes, where the fleet changes, and where it does
	// not: in a cluster of thousands of nodes a look takes a tenth of a second.
	changing, resting = 60, 200
	// longest is the longest such pause: every node is looked at within minutes.
	longest = time.Minute
)

// pause returns how long to wait until the next look at the fleet.
func (c *Consolidator) pause() time.Duration {
	ratio := time.Duration(resting)
	if c.busy {
		ratio = changing
	}
	return max(c.config.Settings.Period, min(ratio*c.took, longest))
}

// once makes one decision, unless nothing has changed since the last one.
func (c *Consolidator) once(ctx context.Context) error {
	if err := c.evicted.Recall(func() ([]view.Decision, error) { return c.config.Before(ctx) }); err != nil {
		return err
	}
	c.begun.Count(c.evicted.Evictions)
	began := time.Now()
	f, err := c.gather(ctx)
	c.took = time.Since(began)
	if err != nil {
		return err
	}
	c.seen, c.busy = f.sum, f.sum != c.seen
	for label, nodes := range f.eligible(c.config.Needed) {
		c.config.Metrics.Eligible(label, nodes)
	}
	now := time.Now()
	c.look(f, nil, now)
	switch {
	case f.candidates == 0:
		c.recordReasons(ctx, f, nil)
		c.show(outlookOf(f, nil, nil, now))
		c.took = time.Since(began)
		return nil
	case f.sum == c.last && now.Sub(c.at) < c.again:
		return nil
	case c.config.Mover.Settling():
		return nil // Its reservations, and perhaps its cordons, do not show in the caches yet.
	}
	asked, waiting := f.takeTurns(c.turn, c.looks)
	answer, err := c.config.Asker.Consolidate(ctx, c.question(f))
	switch {
	case err != nil:
		return err
	case answer.GetMessage() != "":
		return errors.New(answer.GetMessage())
	}
	took := time.Since(now)
	c.look(f, answer, now)
	c.config.Metrics.Evaluated(why, typeOf(answer.GetMoves()), took)
	if f.sum != c.last {
		c.again = c.config.Settings.Period / 2
	}
	c.last, c.at, c.again = f.sum, now, min(2*c.again, staleAfter)
	klog.FromContext(ctx).V(1).Info("Decided about consolidation", "nodes", len(f.nodes), "candidates", f.candidates, "waiting", waiting,
		"moves", len(answer.GetMoves()), "questions", answer.GetQuestions(), "took", took)
	if answer.GetTimedOut() {
		c.config.Metrics.TimedOut("multi") // The scheduler tries the largest sets of nodes first.
	}
	if c.turn = c.turn.After(asked, waiting, answer.GetTimedOut()); c.turn > 0 {
		c.again = 0 // Others wait for their turn.
	}
	c.recordReasons(ctx, f, answer.GetKept())
	c.reject(f, answer.GetRejected())
	var outcomes []outcome
	for _, m := range answer.GetMoves() {
		outcomes = append(outcomes, c.move(ctx, f, m))
	}
	c.show(outlookOf(f, answer, outcomes, now))
	return nil
}

// look notes which nodes were looked at now: those that something keeps, and with an answer those that it moves or has a reason for.
func (c *Consolidator) look(f *fleet, answer *api.ConsolidateAnswer, now time.Time) {
	nodes := make(map[types.UID]bool, len(f.nodes))
	for _, n := range f.nodes {
		nodes[n.claim.UID] = n.blocked.Why != "" && !n.waits
	}
	note := func(name string) {
		if n := f.byName[name]; n != nil && !n.waits {
			nodes[n.claim.UID] = true
		}
	}
	for _, m := range answer.GetMoves() {
		for _, name := range m.GetNodeNames() {
			note(name)
		}
	}
	for _, k := range answer.GetKept() {
		if !k.GetUnlooked() {
			note(k.GetName())
		}
	}
	var oldest time.Duration
	c.looks, oldest = c.looks.At(now, nodes)
	c.unrest.Keep(nodes)
	c.config.Metrics.Looked(oldest)
}

// question returns what the scheduler needs for a decision: the nodes, which of them are blocked, and the budgets.
func (c *Consolidator) question(f *fleet) *api.Consolidate {
	s := c.config.Settings
	q := &api.Consolidate{Payback: s.Payback.Milliseconds(), MinSaving: s.MinSaving, SpotToSpot: s.SpotToSpot}
	costs := c.evicted.Costs(f.movable(), disruption.EvictionCost, time.Now())
	for _, n := range f.nodes {
		q.Nodes = append(q.Nodes, &api.FleetNode{
			Name: n.node.Name, Policy: string(n.pool.Spec.Disruption.ConsolidationPolicy), Blocked: n.blocked.Why, Soon: n.blocked.Soon,
			PodAge: catalog.AgeOf(n.pool.Annotations, catalog.PodAgeAnnotation, s.PodAge).Milliseconds(), EvictionCost: costs[n.pool.Name],
		})
	}
	for _, pool := range slices.Sorted(maps.Keys(f.underutilized)) {
		a := &api.Allowance{NodePool: pool, Empty: count(f.empty[pool]), Underutilized: count(f.underutilized[pool])}
		if of := f.pools[pool]; of != nil {
			a.Generation = of.Generation
		}
		q.Allowances = append(q.Allowances, a)
	}
	return q
}

func count(n int) int32 { return int32(min(max(n, 0), 1<<30)) }

// move hands one move to the Mover, which reserves places in the budgets, and returns what became of it. The next decision finds a refused move again.
func (c *Consolidator) move(ctx context.Context, f *fleet, m *api.PlannedMove) outcome {
	move := disrupt.Move{Reason: reason, Why: why, Type: typeOf([]*api.PlannedMove{m}), MostPerHour: new(m.GetMostPerHour()), Avoid: m.GetAvoid(), Message: message(m)}
	pods := map[string]int{}
	for _, name := range m.GetNodeNames() {
		n := f.byName[name]
		if n == nil || n.blocked.Why != "" {
			return outcome{waits: "node " + name + " was removed or is blocked"}
		}
		move.Claims, move.Quiet = append(move.Claims, n.claim), append(move.Quiet, *n.pool.Spec.Disruption.ConsolidateAfter.Duration)
		pods[n.pool.Name] += n.movable()
	}
	move.OnDelete = c.onDelete(move, pods, m.GetSaving())
	for _, name := range m.GetNodeNames() {
		c.record(f.byName[name], "ConsolidationCandidate", "Consolidation candidate: "+move.Message)
	}
	c.approve(f, m)
	err := c.config.Mover.Start(ctx, move)
	refused := (*budget.RefusedError)(nil)
	switch {
	case err == nil:
		c.last = 0 // The cluster changes.
		return outcome{begun: true}
	case errors.As(err, &refused):
		for _, name := range m.GetNodeNames() {
			c.record(f.byName[name], "DisruptionBlocked", refused.Error())
		}
	default:
		klog.FromContext(ctx).V(2).Info("Move was not accepted", "nodes", m.GetNodeNames(), "err", err)
	}
	return outcome{waits: err.Error()}
}

// onDelete returns what a move calls when the deletion of its nodes begins. A move that is called off before evicts nothing and saves nothing.
func (c *Consolidator) onDelete(m disrupt.Move, evicted map[string]int, saving float64) func() {
	return func() {
		c.begun.Add(evicted, time.Now())
		if c.config.Decided == nil {
			return
		}
		all := 0
		for _, n := range evicted {
			all += n
		}
		c.config.Decided(m.Claims, saving, all, m.Message)
	}
}

// typeOf returns the value of Karpenter's label consolidation_type for moves.
func typeOf(moves []*api.PlannedMove) string {
	for _, m := range moves {
		if len(m.GetNodeNames()) > 1 {
			return "multi"
		}
	}
	return "single"
}

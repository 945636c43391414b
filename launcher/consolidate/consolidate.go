package consolidate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/announce"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

const (
	// reason of everything done here, as budgets know it and as metrics have it.
	reason = karpv1.DisruptionReasonUnderutilized
	why    = "underutilized"
	// staleAfter is when a decision is made again though nothing seems to have changed: prices do. The first ones after a change are
	// made again sooner, after a period, then two, four: what the scheduler keeps for a while lapses without a change.
	staleAfter = 5 * time.Minute
	// tellEvery is how often a node is told why it stays (Karpenter's is 15 minutes too).
	tellEvery = 15 * time.Minute
)

// Asker asks the scheduler; *server.Server is one.
type Asker interface {
	// Consolidate asks which nodes are worth giving up.
	Consolidate(ctx context.Context, q *api.Consolidate) (*api.ConsolidateAnswer, error)
}

// Mover carries moves out; *disrupt.Executor is one.
type Mover interface {
	// Start takes a move on.
	Start(ctx context.Context, m disrupt.Move) error
	// Moving says whether a NodeClaim is in a move.
	Moving(claim types.UID) bool
	// NotBefore is when a NodeClaim may be moved again whose move was called off.
	NotBefore(claim types.UID) time.Time
	// Settling says whether a move is on its way that has no room for its pods yet.
	Settling() bool
}

// Ledger knows the disruption budgets; *budget.Ledger is one.
type Ledger interface {
	// Allowed is how many more nodes of each NodePool may be taken away now.
	Allowed(ctx context.Context, reason karpv1.DisruptionReason) (map[string]int, error)
}

// Metrics tell of decisions; *voluntary.Metrics is one.
type Metrics interface {
	// Eligible says how many nodes could be disrupted for a reason.
	Eligible(reason string, nodes int)
	// Evaluated says how long a decision took.
	Evaluated(reason, consolidationType string, took time.Duration)
	// TimedOut counts a decision that time ran out for.
	TimedOut(consolidationType string)
	// Judged counts a move by a NodePool that would lose nodes.
	Judged(approved bool, pool, policy string)
	// Scored notes the score of one in a NodePool with consolidationPolicy Balanced.
	Scored(approved bool, pool, policy string, score float64)
}

// Settings are what a user may choose.
type Settings struct {
	// Period is how often the cluster is looked at.
	Period time.Duration
	// Payback is how soon a move must have earned what it costs.
	Payback time.Duration
	// MinSaving is the least that a move has to save, in USD per hour.
	MinSaving float64
	// NodeAge is how long a node is left alone after it was bought.
	NodeAge time.Duration
	// PodAge is how long pods have to have run to be moved almost as readily as old ones: at it, moving one counts twice.
	PodAge time.Duration
	// SpotToSpot lets spot nodes be replaced by other spot nodes.
	SpotToSpot bool
}

// Config is what a Consolidator is made of. Every field is required but the last.
type Config struct {
	// Client reads from the cache, with the indexes of package index.
	Client client.Client
	// Guard lets things happen while leading only.
	Guard leadership.Guard
	// Asker asks the scheduler.
	Asker Asker
	// Mover carries moves out.
	Mover Mover
	// Ledger of the disruption budgets.
	Ledger Ledger
	// Metrics of all who disrupt nodes.
	Metrics Metrics
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Settings a user chose.
	Settings Settings
	// Ours says whether a claim is ours to end: a live Karpenter's are not. Nil means all are.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Consolidator keeps the cluster cheap. Run's goroutine alone uses it.
type Consolidator struct {
	config Config
	// last is the cluster as the last decision saw it, at when that was, again after how long it is made again.
	last  uint64
	at    time.Time
	again time.Duration
	// told is when a node was told last why it stays, and what.
	told map[string]telling
}

type telling struct {
	at   time.Time
	what string
}

// New returns a Consolidator; Run starts it.
func New(c Config) (*Consolidator, error) {
	parts := c.Client != nil && c.Guard != nil && c.Asker != nil && c.Mover != nil
	if !parts || c.Ledger == nil || c.Metrics == nil || c.Events == nil {
		return nil, errors.New("consolidate: Client, Guard, Asker, Mover, Ledger, Metrics and Events are required")
	}
	if c.Settings.Period <= 0 || c.Settings.Payback <= 0 {
		return nil, errors.New("consolidate: Settings.Period and Settings.Payback must be positive")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	return &Consolidator{config: c, told: map[string]telling{}}, nil
}

// Run looks at the cluster again and again until ctx ends.
func (c *Consolidator) Run(ctx context.Context) error {
	for {
		// Deciding has no effects; what follows from it is the mover's, under leadership.
		effects, cancel, err := c.config.Guard.Wait(ctx)
		if err == nil {
			if err := c.once(effects); err != nil && effects.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Consolidation was not decided about, will try again", "err", err)
			}
			cancel()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.config.Settings.Period):
		}
	}
}

// once decides once, unless nothing has changed since the last time.
func (c *Consolidator) once(ctx context.Context) error {
	f, err := c.gather(ctx)
	if err != nil {
		return err
	}
	c.config.Metrics.Eligible(why, f.candidates)
	now := time.Now()
	switch {
	case f.candidates == 0:
		c.tell(ctx, f, nil)
		return nil
	case f.sum == c.last && now.Sub(c.at) < c.again:
		return nil
	case c.config.Mover.Settling():
		return nil // The room that it takes is not to be seen yet, nor may be that its nodes go.
	}
	answer, err := c.config.Asker.Consolidate(ctx, c.question(f))
	switch {
	case err != nil:
		return err
	case answer.GetMessage() != "":
		return errors.New(answer.GetMessage())
	}
	took := time.Since(now)
	c.config.Metrics.Evaluated(why, typeOf(answer.GetMoves()), took)
	if f.sum != c.last {
		c.again = c.config.Settings.Period / 2
	}
	c.last, c.at, c.again = f.sum, now, min(2*c.again, staleAfter)
	klog.FromContext(ctx).V(1).Info("Decided about consolidation", "nodes", len(f.nodes), "candidates", f.candidates,
		"moves", len(answer.GetMoves()), "questions", answer.GetQuestions(), "took", took)
	if answer.GetTimedOut() {
		c.config.Metrics.TimedOut("multi") // It asks about sets of nodes first, and about ever smaller ones then.
	}
	c.tell(ctx, f, answer.GetKept())
	c.reject(f, answer.GetRejected())
	for _, m := range answer.GetMoves() {
		c.move(ctx, f, m)
	}
	return nil
}

// question tells the scheduler what may be touched.
func (c *Consolidator) question(f *fleet) *api.Consolidate {
	s := c.config.Settings
	q := &api.Consolidate{Payback: s.Payback.Milliseconds(), MinSaving: s.MinSaving, SpotToSpot: s.SpotToSpot}
	for _, n := range f.nodes {
		q.Nodes = append(q.Nodes, &api.FleetNode{
			Name: n.node.Name, Policy: string(n.pool.Spec.Disruption.ConsolidationPolicy), Blocked: n.blocked,
			PodAge: catalog.AgeOf(n.pool.Annotations, catalog.PodAgeAnnotation, s.PodAge).Milliseconds(),
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

// move hands one move over. The budgets have the last word; what they hold comes again with the next decision.
func (c *Consolidator) move(ctx context.Context, f *fleet, m *api.PlannedMove) {
	move := disrupt.Move{Reason: reason, Why: why, Type: typeOf([]*api.PlannedMove{m}), MostPerHour: new(m.GetMostPerHour()), Avoid: m.GetAvoid(), Message: message(m)}
	for _, name := range m.GetNodeNames() {
		n := f.byName[name]
		if n == nil || n.blocked != "" {
			return // The answer is about another cluster.
		}
		move.Claims = append(move.Claims, n.claim)
	}
	for _, name := range m.GetNodeNames() {
		c.say(f.byName[name], "ConsolidationCandidate", "Consolidation candidate: "+move.Message)
	}
	c.approve(f, m)
	err := c.config.Mover.Start(ctx, move)
	refused := (*budget.RefusedError)(nil)
	switch {
	case err == nil:
		c.last = 0 // The cluster changes.
	case errors.As(err, &refused):
		for _, name := range m.GetNodeNames() {
			c.say(f.byName[name], "DisruptionBlocked", refused.Error())
		}
	default:
		klog.FromContext(ctx).V(2).Info("A move was not taken on", "nodes", m.GetNodeNames(), "err", err)
	}
}

// typeOf is Karpenter's consolidation_type of moves.
func typeOf(moves []*api.PlannedMove) string {
	for _, m := range moves {
		if len(m.GetNodeNames()) > 1 {
			return "multi"
		}
	}
	return "single"
}

// message says what a move is good for.
func message(m *api.PlannedMove) string {
	var comes []string
	for _, r := range m.GetReplacements() {
		comes = append(comes, fmt.Sprintf("%s %s", r.GetInstanceType(), r.GetCapacityType()))
	}
	room := "pods fit elsewhere"
	if len(comes) > 0 {
		room = "replaced by " + strings.Join(comes, ", ")
	}
	return fmt.Sprintf("%s, saves %.4f USD/h with %d evictions", room, m.GetSaving(), m.GetEvictions())
}

// tell says on nodes why they stay, each thing once in a while.
func (c *Consolidator) tell(ctx context.Context, f *fleet, kept []*api.KeptNode) {
	maps.DeleteFunc(c.told, func(_ string, t telling) bool { return time.Since(t.at) > tellEvery })
	now := time.Now()
	for _, n := range f.nodes {
		c.timed(n, now)
		if n.blocked != "" && !n.passing {
			c.say(n, "Unconsolidatable", n.blocked)
		}
	}
	for _, k := range kept {
		if n := f.byName[k.GetName()]; n != nil && n.blocked == "" {
			c.say(n, "Unconsolidatable", k.GetReason())
		}
	}
	klog.FromContext(ctx).V(4).Info("Nodes that stay were told why", "nodes", len(kept))
}

// say writes an Event about a node and its claim, unless it has been told anything of the kind a while ago.
func (c *Consolidator) say(n *member, event, message string) {
	if !c.news(event, n.node.Name, message) {
		return
	}
	c.config.Events.Eventf(n.node, corev1.EventTypeNormal, event, "%s", message)
	c.config.Events.Eventf(n.claim, corev1.EventTypeNormal, event, "%s", message)
}

package disrupt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/announce"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// CordonedBy is in whose name the nodes of moves are cordoned.
const CordonedBy = "move"

const (
	// lookPeriod is how often a move is looked at.
	lookPeriod = 250 * time.Millisecond
	// awaitPeriod is the same while nodes boot.
	awaitPeriod = time.Second
	// sweepPeriod is how often cordons without a move are looked for.
	sweepPeriod = 5 * time.Second
	// offFor and offAtMost are how long the nodes of a move that was called off are left alone, the first time and at most.
	offFor    = time.Minute
	offAtMost = 15 * time.Minute
)

// ErrMoving says that one of the NodeClaims is in a move already.
var ErrMoving = errors.New("the NodeClaim is in a move already")

// ErrNotRunning says that the executor is not started, or stopping.
var ErrNotRunning = errors.New("the executor of moves is not running")

// Asker asks the scheduler; *server.Server is one.
type Asker interface {
	// Busy says whether anything is assumed, nominated or promised on a cordoned node, with a reason for a human.
	Busy(ctx context.Context, node string) (busy bool, reason string, err error)
	// MakeRoom asks for room for pods of nodes that terminate.
	MakeRoom(ctx context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error)
}

// Ender ends nodes; *terminate.Terminator is one.
type Ender interface {
	// Cordon keeps new pods off a node in the name of by.
	Cordon(ctx context.Context, node, by string) error
	// Uncordon takes away what Cordon did in the same name.
	Uncordon(ctx context.Context, node, by string) error
	// Begin starts the end of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Ledger gives out places in disruption budgets; *budget.Ledger is one.
type Ledger interface {
	// Reserve takes a place for all the claims or for none.
	Reserve(ctx context.Context, reason karpv1.DisruptionReason, claims ...*karpv1.NodeClaim) error
	// Release gives places back.
	Release(claims ...types.UID)
}

// Metrics count decisions; *voluntary.Metrics is one.
type Metrics interface {
	// Decided counts a decision that is carried out.
	Decided(pool, decision, reason, consolidationType string)
	// QueueFailed counts a decision that was called off after it had begun.
	QueueFailed(decision, reason, consolidationType string)
	// ValidationFailed counts a node that was kept at the last look.
	ValidationFailed(consolidationType string)
}

// Config is what an Executor is made of. Every field is required but the last.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Reader reads from the API server: what a move rests on.
	Reader client.Reader
	// Guard lets effects happen while leading only.
	Guard leadership.Guard
	// Asker asks the scheduler.
	Asker Asker
	// Ender ends nodes.
	Ender Ender
	// Ledger of the disruption budgets.
	Ledger Ledger
	// Metrics of all who disrupt nodes.
	Metrics Metrics
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// SpotToSpot says that spot nodes may be replaced by other spot nodes to save.
	SpotToSpot bool
}

// Move is nodes that go together.
type Move struct {
	// Claims of the nodes. Required.
	Claims []*karpv1.NodeClaim
	// Reason that budgets know. Required.
	Reason karpv1.DisruptionReason
	// Why is the reason in the condition DisruptionReason and in metrics; Reason in lower case where it is empty.
	Why string
	// Type is the metrics' consolidation_type; empty for what is no consolidation.
	Type string
	// MostPerHour is what all that is launched for the pods may cost, in USD per hour; no node that is equal to one that goes is
	// launched then. Nil for whatever is needed.
	MostPerHour *float64
	// Avoid are nodes that are no room for the pods: they go next.
	Avoid []string
	// Eventual says that the claims have a termination grace period which ends what their pods may ask for: do-not-disrupt and
	// PodDisruptionBudgets of pods do not keep them.
	Eventual bool
	// Message says for Events what the move is good for; empty for nothing to say.
	Message string
}

func (m *Move) why() string {
	if m.Why != "" {
		return m.Why
	}
	return strings.ToLower(string(m.Reason))
}

// Executor carries moves out.
type Executor struct {
	config Config

	mu sync.Mutex
	// start runs a move; nil unless Run is active.
	start func(*moving)
	// claims and nodes that are in a move.
	claims map[types.UID]bool
	nodes  map[string]bool
	// unsettled is how many moves have no room for their pods yet.
	unsettled int
	off       map[types.UID]rest
}

// rest is for how long a claim is left alone whose move was called off.
type rest struct {
	until time.Time
	next  time.Duration
}

// New returns an Executor that carries moves out once Run is called.
func New(c Config) (*Executor, error) {
	parts := c.Client != nil && c.Reader != nil && c.Guard != nil && c.Asker != nil && c.Ender != nil
	if !parts || c.Ledger == nil || c.Metrics == nil || c.Events == nil {
		return nil, errors.New("disrupt: Client, Reader, Guard, Asker, Ender, Ledger, Metrics and Events are required")
	}
	return &Executor{config: c, claims: map[types.UID]bool{}, nodes: map[string]bool{}, off: map[types.UID]rest{}}, nil
}

// Run carries moves out until ctx ends, and takes back cordons that no move answers for.
func (e *Executor) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	e.mu.Lock()
	e.start = func(m *moving) { all.Go(func() { e.carry(ctx, m) }) }
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.start = nil
		e.mu.Unlock()
	}()
	for {
		// A new leader finds what the one before left.
		effects, cancel, err := e.config.Guard.Wait(ctx)
		if err != nil {
			return nil // The launcher is stopping.
		}
		if err := e.sweep(effects); err != nil && effects.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cordons without a move were not taken back, will try again")
		}
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepPeriod):
		}
	}
}

// Start takes a move on, if the budgets have a place for all of its nodes; what follows happens by itself. The error is
// ErrMoving, or the ledger's.
func (e *Executor) Start(ctx context.Context, m Move) error {
	if len(m.Claims) == 0 || m.Reason == "" {
		return errors.New("a move needs NodeClaims and a reason")
	}
	run := &moving{Move: m, started: time.Now(), idle: map[string]bool{}, busy: map[string]string{}}
	for _, c := range m.Claims {
		if c.Status.NodeName == "" {
			return fmt.Errorf("NodeClaim %s has no node", c.Name)
		}
		run.nodes = append(run.nodes, c.Status.NodeName)
	}
	if err := e.enter(m.Claims); err != nil {
		return err
	}
	if err := e.config.Ledger.Reserve(ctx, m.Reason, m.Claims...); err != nil {
		e.leave(m.Claims)
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.start == nil {
		e.forget(m.Claims)
		e.config.Ledger.Release(uids(m.Claims)...)
		return ErrNotRunning
	}
	e.unsettled++
	e.start(run)
	return nil
}

// enter marks the claims as moving.
func (e *Executor) enter(claims []*karpv1.NodeClaim) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.start == nil {
		return ErrNotRunning
	}
	for _, c := range claims {
		if e.claims[c.UID] {
			return fmt.Errorf("%w: %s", ErrMoving, c.Name)
		}
	}
	for _, c := range claims {
		e.claims[c.UID], e.nodes[c.Status.NodeName] = true, true
	}
	return nil
}

func (e *Executor) leave(claims []*karpv1.NodeClaim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget(claims)
}

// forget is leave for those who hold mu.
func (e *Executor) forget(claims []*karpv1.NodeClaim) {
	for _, c := range claims {
		delete(e.claims, c.UID)
		delete(e.nodes, c.Status.NodeName)
	}
}

// Moving says whether a NodeClaim is in a move.
func (e *Executor) Moving(claim types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claims[claim]
}

// Settling says whether a move is on its way that has no room for its pods yet: the scheduler may not have seen its cordons, and what
// it will keep for the pods is not known.
func (e *Executor) Settling() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unsettled > 0
}

// settle notes that a move has the room for its pods, or is over.
func (e *Executor) settle(m *moving) {
	if m.settled {
		return
	}
	m.settled = true
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsettled--
}

// NotBefore is when a NodeClaim may be moved again whose move was called off; zero for any time.
func (e *Executor) NotBefore(claim types.UID) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.off[claim].until
}

// rests has the claims left alone for a while, longer each time.
func (e *Executor) rests(claims []*karpv1.NodeClaim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for uid, r := range e.off {
		if now.Sub(r.until) > offAtMost {
			delete(e.off, uid)
		}
	}
	for _, c := range claims {
		next := max(e.off[c.UID].next, offFor)
		e.off[c.UID] = rest{until: now.Add(next), next: min(2*next, offAtMost)}
	}
}

// InMove says whether a node is in a move.
func (e *Executor) InMove(node string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nodes[node]
}

func uids(claims []*karpv1.NodeClaim) []types.UID {
	out := make([]types.UID, 0, len(claims))
	for _, c := range claims {
		out = append(out, c.UID)
	}
	slices.Sort(out)
	return out
}

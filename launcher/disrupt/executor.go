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

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// CordonedBy is the owner that the annotation of a cordoned node names.
const CordonedBy = "move"

const (
	// lookPeriod is the time between two steps of a move.
	lookPeriod = 250 * time.Millisecond
	// awaitPeriod is the same while nodes boot.
	awaitPeriod = time.Second
	// sweepPeriod is the time between two searches for cordons without a move.
	sweepPeriod = 5 * time.Second
	// offFor is how long a node is left alone after its move was called off for the first time. The time doubles up to
	// offAtMost.
	offFor    = time.Minute
	offAtMost = 15 * time.Minute
	// offBriefly is how long the nodes are left alone where a pod came: by then its node is known not to be quiet.
	offBriefly = 10 * time.Second
	// planning and asking are how many questions the scheduler is asked at a time: hundreds of moves at once would wait for each other's answers until
	// none comes in time. A question that needs a plan takes a part of a second, and all others a part of that. So moves that are about to end
	// do not wait for those that begin.
	planning = 4
	asking   = 8
)

// ErrMoving reports that one of the NodeClaims is in a move already.
var ErrMoving = errors.New("the NodeClaim is in a move already")

// ErrNotRunning reports that the executor is not started, or stopping.
var ErrNotRunning = errors.New("the executor of moves is not running")

// Asker asks the scheduler; *server.Server is one.
type Asker interface {
	// Busy reports whether any pod is assumed, nominated or promised on a cordoned node, with a reason for users. The rooms of buffers
	// move: the plan has counted them.
	Busy(ctx context.Context, q *api.NodeBusy) (busy bool, reason string, err error)
	// MakeRoom asks for reservations for pods of nodes that terminate.
	MakeRoom(ctx context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error)
}

// Ender terminates nodes; *terminate.Terminator is one.
type Ender interface {
	// Cordon cordons a node and records by as the owner of the cordon.
	Cordon(ctx context.Context, node, by string) error
	// Uncordon removes the cordon of the same owner; an empty one stands for a cordon that names none.
	Uncordon(ctx context.Context, node, by string) error
	// Begin starts the termination of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Ledger reserves places in the disruption budgets; *budget.Ledger is one.
type Ledger interface {
	// Reserve reserves a place for each of the claims, or none.
	Reserve(ctx context.Context, reason karpv1.DisruptionReason, claims ...*karpv1.NodeClaim) error
	// Release releases places.
	Release(claims ...types.UID)
}

// Metrics count decisions; *voluntary.Metrics is one.
type Metrics interface {
	// Decided counts a decision that is carried out.
	Decided(pool, decision, reason, consolidationType string)
	// QueueFailed counts a decision that was called off after nodes had been launched for it.
	QueueFailed(decision, reason, consolidationType string)
	// ValidationFailed counts a decision that was called off before anything was launched.
	ValidationFailed(consolidationType string)
}

// Config holds the dependencies of an Executor. Every field is required but the last four.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Pods reads pods from the cache.
	Pods index.Pods
	// Nodes reads Nodes from the cache.
	Nodes index.Nodes
	// Reader reads from the API server what the end of a move depends on.
	Reader client.Reader
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Asker asks the scheduler.
	Asker Asker
	// Ender terminates nodes.
	Ender Ender
	// Ledger of the disruption budgets.
	Ledger Ledger
	// Metrics count decisions.
	Metrics Metrics
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// SpotToSpot allows spot nodes to be replaced by other spot nodes to save money.
	SpotToSpot bool
	// DisruptBare means that pods without a controller do not keep a node: they end with it.
	DisruptBare bool
	// Ours reports whether the launcher may disrupt a claim: not if a running Karpenter manages it. Nil means that it may disrupt all.
	Ours func(claim *karpv1.NodeClaim) bool
	// Alone reports whether certainly no Karpenter runs: what one has left on Nodes is removed then. Nil means that none ever runs.
	Alone func() bool
}

// Move is a set of nodes that are removed together.
type Move struct {
	// Claims of the nodes. Required.
	Claims []*karpv1.NodeClaim
	// Reason is the reason in the budgets. Required.
	Reason karpv1.DisruptionReason
	// Why is the reason in the condition DisruptionReason and in metrics. If it is empty, Reason in lower case is used.
	Why string
	// Type is the consolidation_type in metrics; empty where the move is no consolidation.
	Type string
	// MostPerHour limits what the nodes launched for the pods may cost together, in USD per hour. With a limit, no node
	// equal to a removed one is launched. Nil means no limit.
	MostPerHour *float64
	// Avoid are nodes on which no reservation is made, because they are to be removed next.
	Avoid []string
	// Eventual is true where the claims have a termination grace period that ends the protection of their pods:
	// do-not-disrupt and PodDisruptionBudgets of pods do not block the move.
	Eventual bool
	// Quiet is, for each of the claims, how long no pod must have come to its node. A move is called off where one has before the deletion begins. Nil means
	// that pods may come at any time.
	Quiet []time.Duration
	// Message states in Events what the move is for; empty for none.
	Message string
	// OnDelete is called when the deletion of the claims begins, once and in a goroutine of its own move. Nil calls nothing.
	OnDelete func()
}

func (m *Move) why() string {
	if m.Why != "" {
		return m.Why
	}
	return strings.ToLower(string(m.Reason))
}

// Executor carries out moves.
type Executor struct {
	config Config
	// planning and asking have a slot for each question that the scheduler is asked at a time.
	planning, asking chan struct{}
	// budgets reads PodDisruptionBudgets for all moves.
	budgets index.Budgets

	mu sync.Mutex
	// start runs a move; nil unless Run is active.
	start func(*moving)
	// claims and nodes are those in a move.
	claims map[types.UID]bool
	nodes  map[string]bool
	// unsettled is the number of moves whose pods have no reservations yet.
	unsettled int
	off       map[types.UID]backoff
}

// backoff is until when a claim is left alone whose move was called off, and how long it is left alone the next time.
type backoff struct {
	until time.Time
	next  time.Duration
}

// New returns an Executor that carries out moves once Run is called.
func New(c Config) (*Executor, error) {
	parts := c.Client != nil && c.Pods != nil && c.Nodes != nil && c.Reader != nil && c.Guard != nil && c.Asker != nil && c.Ender != nil
	if !parts || c.Ledger == nil || c.Metrics == nil || c.Events == nil {
		return nil, errors.New("disrupt: Client, Pods, Nodes, Reader, Guard, Asker, Ender, Ledger, Metrics and Events are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	if c.Alone == nil {
		c.Alone = func() bool { return true }
	}
	return &Executor{config: c, planning: make(chan struct{}, planning), asking: make(chan struct{}, asking), claims: map[types.UID]bool{}, nodes: map[string]bool{}, off: map[types.UID]backoff{}}, nil
}

// Run carries out moves until ctx ends, and removes cordons that belong to no move.
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
		// A new leader finds the cordons that the last one left.
		effects, cancel, err := e.config.Guard.Wait(ctx)
		if err != nil {
			return nil // The launcher is stopping.
		}
		if err := e.sweep(effects); err != nil && effects.Err() == nil {
			klog.FromContext(ctx).Error(err, "Removing cordons without a move failed, will retry")
		}
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepPeriod):
		}
	}
}

// Start accepts a move if the budgets have a place for each of its nodes. The move then runs in its own goroutine. The error
// is ErrMoving, or the ledger's.
func (e *Executor) Start(ctx context.Context, m Move) error {
	if len(m.Claims) == 0 || m.Reason == "" || m.Quiet != nil && len(m.Quiet) != len(m.Claims) {
		return errors.New("a move needs NodeClaims and a reason, and Quiet for each of the NodeClaims or for none")
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

// forget does what leave does. The caller holds mu.
func (e *Executor) forget(claims []*karpv1.NodeClaim) {
	for _, c := range claims {
		delete(e.claims, c.UID)
		delete(e.nodes, c.Status.NodeName)
	}
}

// Moving reports whether a NodeClaim is in a move.
func (e *Executor) Moving(claim types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claims[claim]
}

// Settling reports whether a move is in progress whose pods have no reservations yet. The scheduler may not have seen its
// cordons, and its reservations are not known.
func (e *Executor) Settling() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unsettled > 0
}

// settle counts a move as settled: its pods have reservations, or it has ended.
func (e *Executor) settle(m *moving) {
	if m.settled {
		return
	}
	m.settled = true
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsettled--
}

// NotBefore returns when a NodeClaim whose move was called off may be moved again; zero for any time.
func (e *Executor) NotBefore(claim types.UID) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.off[claim].until
}

// backOff leaves the claims alone for a while, which doubles each time, or briefly.
func (e *Executor) backOff(claims []*karpv1.NodeClaim, briefly bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for uid, r := range e.off {
		if now.Sub(r.until) > offAtMost {
			delete(e.off, uid)
		}
	}
	for _, c := range claims {
		if briefly {
			e.off[c.UID] = backoff{until: now.Add(offBriefly), next: e.off[c.UID].next}
			continue
		}
		next := max(e.off[c.UID].next, offFor)
		e.off[c.UID] = backoff{until: now.Add(next), next: min(2*next, offAtMost)}
	}
}

// InMove reports whether a node is in a move.
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

package budget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// maxTerminating is the maximum number of nodes in the whole cluster that began to terminate lately, for any reason, at which another voluntary
	// disruption may start: it bounds the load on the API server and EC2.
	maxTerminating = 200
	// loadsFor is for how long a termination counts for maxTerminating. A drain that takes longer waits for pods that may not be evicted, which loads
	// nothing. With the default settings it has no end, and 200 of them would stop all voluntary disruption.
	loadsFor = 10 * time.Minute
)

// blocking is Karpenter's term for a budget that allows no more disruptions.
const blocking = "blocking budget"

// View is the cluster's state at one moment.
type View struct {
	// Now is that moment.
	Now time.Time
	// Pools are the NodePools by name.
	Pools map[string]*karpv1.NodePool
	// Nodes are those of all NodeClaims.
	Nodes []disruption.BudgetNode
}

// Observe returns the cluster's current state. A later result is at least as new as an earlier one, as a cache guarantees.
type Observe func(ctx context.Context) (View, error)

// RefusedError means that nodes may not be disrupted now.
type RefusedError struct {
	// NodePool is the one whose budget refused; empty if it was not a budget.
	NodePool string
	// Reason is that of the disruption.
	Reason karpv1.DisruptionReason
	// Why is the cause, for people.
	Why string
	// Taken means that another controller disrupts one of the nodes already.
	Taken bool
	// Closed means that the NodePool has no place for any node now, whatever ends: until a schedule or an edit opens its budgets.
	Closed bool
}

// Error implements error.
func (r *RefusedError) Error() string {
	if r.Taken {
		return r.Why
	}
	return fmt.Sprintf("No allowed disruptions for disruption reason %s due to %s", r.Reason, r.Why)
}

// Ledger assigns places in the budgets. Its methods may be called concurrently.
type Ledger struct {
	observe Observe

	mu sync.Mutex
	// held maps the claims with a place to its purpose, until the view shows them as being deleted.
	held map[types.UID]string
}

// New returns a Ledger that reads the cluster's state with observe.
func New(observe Observe) (*Ledger, error) {
	if observe == nil {
		return nil, errors.New("budget: Observe is required")
	}
	return &Ledger{observe: observe, held: map[types.UID]string{}}, nil
}

// Reserve takes a place for all the claims, in any NodePools, or for none of them; a *RefusedError has the reason. A place is kept until the
// view shows the claim as being deleted, or deleted, or until it is Released. A cordoned claim still needs its place.
func (l *Ledger) Reserve(ctx context.Context, reason karpv1.DisruptionReason, claims ...*karpv1.NodeClaim) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A hundred moves at once are offered again and again: the cluster is not looked at for each.
	for _, c := range claims {
		if l.held[c.UID] != "" {
			return &RefusedError{Reason: reason, Taken: true, Why: fmt.Sprintf("NodeClaim %s is being disrupted already: %s", c.Name, l.held[c.UID])}
		}
	}
	view, err := l.look(ctx)
	if err != nil {
		return err
	}
	terminating := len(l.held)
	known := map[types.UID]disruption.BudgetNode{}
	for _, n := range view.Nodes {
		known[n.Claim] = n
		if n.Deleting && view.Now.Sub(n.DeletedAt) < loadsFor {
			terminating++
		}
	}
	wanted := map[types.UID]bool{}
	for _, c := range claims {
		if node, ok := known[c.UID]; !ok || node.Deleting {
			return &RefusedError{Reason: reason, Taken: true, Why: fmt.Sprintf("NodeClaim %s is being deleted already", c.Name)}
		}
		wanted[c.UID] = true
	}
	if terminating+len(wanted) > maxTerminating && terminating > 0 {
		return &RefusedError{Reason: reason, Why: catalog.CountText(terminating, "other node") + " at the same moment"}
	}
	if err := places(view, l.held, reason, wanted); err != nil {
		return err
	}
	for uid := range wanted {
		l.held[uid] = string(reason)
	}
	return nil
}

// places returns an error unless the budgets of all NodePools have the wanted places. A node that is disrupted already, because it is not
// Ready or is cordoned by another, counts as the place that it takes.
func places(view View, held map[types.UID]string, reason karpv1.DisruptionReason, wanted map[types.UID]bool) error {
	need := map[string]int{}
	for _, n := range view.Nodes {
		if !wanted[n.Claim] {
			continue
		}
		need[n.Pool] += 0
		if n.Counts && !n.Disrupted {
			need[n.Pool]++
		}
	}
	counts := disruption.CountNodes(view.Nodes, held)
	for _, name := range slices.Sorted(maps.Keys(need)) {
		pool := view.Pools[name]
		if pool == nil {
			return &RefusedError{NodePool: name, Reason: reason, Closed: true, Why: fmt.Sprintf("NodePool %q, which is not there", name)}
		}
		if disruption.Paused(pool) {
			return &RefusedError{NodePool: name, Reason: reason, Closed: true, Why: fmt.Sprintf("the annotation %s of NodePool %s, which pauses it", catalog.PausedAnnotation, name)}
		}
		allowed, err := disruption.AllowedDisruptions(pool, counts[name].Nodes, reason, view.Now)
		switch {
		case err != nil:
			return &RefusedError{NodePool: name, Reason: reason, Closed: true, Why: "a budget that cannot be read: " + err.Error()}
		case counts[name].Disrupted+need[name] > allowed:
			return &RefusedError{NodePool: name, Reason: reason, Closed: allowed == 0, Why: blocking}
		}
	}
	return nil
}

// look observes, and drops the places of claims that the view shows as terminating. The caller holds mu.
func (l *Ledger) look(ctx context.Context) (View, error) {
	view, err := l.observe(ctx)
	if err != nil {
		return View{}, fmt.Errorf("disruption budgets: %w", err)
	}
	existing := make(map[types.UID]bool, len(view.Nodes))
	for _, n := range view.Nodes {
		if !n.Deleting {
			existing[n.Claim] = true
		}
	}
	maps.DeleteFunc(l.held, func(uid types.UID, _ string) bool { return !existing[uid] })
	return view, nil
}

// Release returns the places of claims whose disruption was canceled.
func (l *Ledger) Release(claims ...types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range claims {
		delete(l.held, uid)
	}
}

// Held reports whether the claim has a place: a controller disrupts its node, and the cache does not show it yet.
func (l *Ledger) Held(claim types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[claim] != ""
}

// Allowed returns how many more nodes of each NodePool may be disrupted now for each of the reasons: an estimate for plans, until Reserve decides. It
// returns 0 for a NodePool with an invalid budget.
func (l *Ledger) Allowed(ctx context.Context, reasons ...karpv1.DisruptionReason) (map[karpv1.DisruptionReason]map[string]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	view, err := l.look(ctx)
	if err != nil {
		return nil, err
	}
	counts := disruption.CountNodes(view.Nodes, l.held)
	out := make(map[karpv1.DisruptionReason]map[string]int, len(reasons))
	for _, reason := range reasons {
		left := make(map[string]int, len(view.Pools))
		for name, pool := range view.Pools {
			if left[name], err = disruption.DisruptionsLeft(pool, counts[name], reason, view.Now); err != nil {
				left[name] = 0
			}
		}
		out[reason] = left
	}
	return out, nil
}

// Standing is the state of a NodePool's budgets for a reason.
type Standing struct {
	// NodePool's name.
	NodePool string
	// Reason of disruption.
	Reason karpv1.DisruptionReason
	// Allowed is how many nodes may be disrupted together, Consuming how many are.
	Allowed, Consuming int
}

// Standings lists the state of all budgets, in the order of NodePools and disruption.BudgetReasons.
func (l *Ledger) Standings(ctx context.Context) ([]Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	view, err := l.look(ctx)
	if err != nil {
		return nil, err
	}
	counts := disruption.CountNodes(view.Nodes, l.held)
	var out []Standing
	for _, name := range slices.Sorted(maps.Keys(view.Pools)) {
		for _, reason := range disruption.BudgetReasons() {
			s := Standing{NodePool: name, Reason: reason, Consuming: counts[name].Disrupted}
			if s.Allowed, err = disruption.AllowedDisruptions(view.Pools[name], counts[name].Nodes, reason, view.Now); err != nil {
				s.Allowed = 0
			}
			out = append(out, s)
		}
	}
	return out, nil
}

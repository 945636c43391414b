package roll

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

const (
	// period is the time between two passes. Room in the budgets becomes free without a change that could be watched.
	period = 2 * time.Second
	// quietFor is the time to the next pass where no node had to be replaced.
	quietFor = 10 * time.Second
	// blocked is the reason of the Events.
	blocked = "DisruptionBlocked"
)

// ErrBusy reports that the node is in a move already, or that a move of the node was called off recently.
var ErrBusy = errors.New("the node is in a move, or a move of it was called off recently")

// Mover replaces nodes: their pods get reservations, on new nodes where necessary, and their NodeClaims are deleted.
type Mover interface {
	// Replace starts to replace a node that has drifted or expires soon. why is the reason, message explains it to users. It
	// returns nil where the move is accepted, a *budget.RefusedError where the budgets do not allow it, or ErrBusy. The claim is
	// the cache's and must not be changed.
	Replace(ctx context.Context, claim *karpv1.NodeClaim, why, message string) error
}

// Config holds the dependencies of a Roller. Every field is required but Window and Ours.
type Config struct {
	// Client reads from the cache.
	Client client.Reader
	// Pods reads pods from the cache.
	Pods index.Pods
	// Claims reads NodeClaims from the cache.
	Claims index.Claims
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Mover replaces the nodes.
	Mover Mover
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Metrics count the nodes that may be replaced.
	Metrics *voluntary.Metrics
	// Window is the longest soft window of nodes whose NodePool does not set one; zero means none.
	Window time.Duration
	// DisruptBare means that pods without a controller do not keep a node: they end with it.
	DisruptBare bool
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may
	// terminate all.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Roller replaces drifted and expiring nodes.
type Roller struct {
	config Config
	// recorded are the Events about nodes that stay, and about NodePools. They belong to Run's goroutine.
	recorded calm.Events
	// budgets reads PodDisruptionBudgets.
	budgets index.Budgets
	// quiet is when a pass found no node to replace. It belongs to Run's goroutine too.
	quiet time.Time
}

// New returns a Roller; Run starts it.
func New(c Config) (*Roller, error) {
	if c.Client == nil || c.Pods == nil || c.Claims == nil || c.Guard == nil || c.Mover == nil || c.Events == nil || c.Metrics == nil {
		return nil, errors.New("roll: Client, Pods, Claims, Guard, Mover, Events and Metrics are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	return &Roller{config: c, recorded: calm.Events{}}, nil
}

// Run makes one pass per period until ctx ends, while this process leads, and fewer while there is nothing to replace.
func (r *Roller) Run(ctx context.Context) error {
	failed := func(err error) {
		klog.FromContext(ctx).Error(err, "Listing nodes to replace failed, will retry")
	}
	leadership.Every(ctx, r.config.Guard, period, failed, func(ctx context.Context) error {
		if time.Since(r.quiet) < quietFor {
			return nil
		}
		return r.Pass(ctx)
	})
	return nil
}

// place is a place in the budgets of a NodePool. A node that is disrupted already, because it is not Ready, has one: budgets that are used up refuse
// the others alone.
type place struct {
	pool      string
	disrupted bool
}

func placeOf(c Candidate) place {
	counts := disruption.BudgetNodeOf(c.Claim, c.Node)
	return place{pool: counts.Pool, disrupted: counts.Disrupted}
}

// Pass examines all candidates once and hands those that may be replaced to the Mover. ctx ends with leadership.
func (r *Roller) Pass(ctx context.Context) error {
	began := time.Now()
	// 1. List the nodes that are due, and what blocks each.
	list, err := r.candidates(ctx, began)
	if err != nil {
		return err
	}
	// 2. Sort them.
	Order(list)
	// 3. Replace as many as the budgets allow.
	eligible := 0
	full := map[place]bool{}
	var errs []error
	for _, c := range list {
		if why := c.Blocked(); why != "" {
			r.record(c.Claim, why, began)
			r.record(c.Node, why, began)
			continue
		}
		eligible++
		at := placeOf(c)
		if full[at] {
			continue
		}
		err := r.config.Mover.Replace(ctx, c.Claim, c.Due.Why, c.Due.Message)
		var refused *budget.RefusedError
		switch {
		case err == nil, errors.Is(err, ErrBusy):
		case errors.As(err, &refused):
			full[at] = !refused.Taken
			r.recordRefusal(ctx, refused, began)
		default:
			errs = append(errs, fmt.Errorf("replacing NodeClaim %s: %w", c.Claim.Name, err))
		}
	}
	r.config.Metrics.Eligible(Drifted, eligible)
	if len(list) == 0 {
		r.quiet = began
	}
	if len(list) > 0 {
		r.config.Metrics.Evaluated(Drifted, "", time.Since(began))
	}
	r.recorded.Forget(began)
	return errors.Join(errs...)
}

// candidates returns the nodes that are due.
func (r *Roller) candidates(ctx context.Context, now time.Time) ([]Candidate, error) {
	pools := &karpv1.NodePoolList{}
	claims, err := r.config.Claims.All(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.config.Client.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodePools: %w", err)
	}
	poolOf := make(map[string]*karpv1.NodePool, len(pools.Items))
	for i := range pools.Items {
		poolOf[pools.Items[i].Name] = &pools.Items[i]
	}
	claimsOf := map[string][]*karpv1.NodeClaim{}
	for _, claim := range claims {
		name := claim.Labels[karpv1.NodePoolLabelKey]
		claimsOf[name] = append(claimsOf[name], claim)
	}
	var out []Candidate
	for name, list := range claimsOf {
		out = append(out, r.due(poolOf[name], list, now)...)
	}
	if len(out) == 0 {
		return nil, nil
	}
	budgets, err := r.budgets.All(ctx, r.config.Client)
	if err != nil {
		return nil, err
	}
	return r.look(ctx, out, budgets, now)
}

// due returns the nodes of a NodePool, which may be nil, that must be replaced.
func (r *Roller) due(pool *karpv1.NodePool, claims []*karpv1.NodeClaim, now time.Time) []Candidate {
	if pool != nil && pool.Spec.Replicas != nil {
		return nil // Package static replaces these.
	}
	var out []Candidate
	for _, claim := range claims {
		if record.StandbyOf(claim).Waits() {
			continue // Package standby replaces it, once another one waits in its place.
		}
		if due := DueOf(claim, expire.Window(claim, pool, r.config.Window), now); due.Why != "" && r.config.Ours(claim) {
			out = append(out, Candidate{Claim: claim, Due: due})
		}
	}
	if len(out) == 0 || pool == nil {
		return out
	}
	unproven := Unproven(pool, claims, now)
	for i := range out {
		out[i].Unproven = unproven
	}
	return out
}

// record writes an Event about an object, unless it said the same lately, or several others.
func (r *Roller) record(object client.Object, message string, now time.Time) {
	if r.recorded.IsNew(blocked, string(object.GetUID()), message, now) {
		r.config.Events.Eventf(object, corev1.EventTypeNormal, blocked, "%s", message)
	}
}

func (r *Roller) recordRefusal(ctx context.Context, refused *budget.RefusedError, now time.Time) {
	pool := &karpv1.NodePool{}
	if refused.NodePool == "" || r.config.Client.Get(ctx, client.ObjectKey{Name: refused.NodePool}, pool) != nil {
		return
	}
	r.record(pool, refused.Error(), now)
}

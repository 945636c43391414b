package roll

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/announce"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

const (
	// period is how often candidates are looked at: places in the budgets become free without a change that could be watched for.
	period = 2 * time.Second
	// tellAgain is when a reason that has not changed is told again.
	tellAgain = 15 * time.Minute
)

// ErrBusy says that the node is being moved already, or that a move of it was called off a moment ago.
var ErrBusy = errors.New("the node is being moved, or was to be moved a moment ago")

// Mover moves nodes: it has room planned and launched for their pods, and ends their claims then.
type Mover interface {
	// Replace begins to move a node that is drifted or expires soon, for why, with a message for a human. It returns nil once the
	// move is taken on, a *budget.RefusedError if the budgets have no place for it, and ErrBusy.
	Replace(ctx context.Context, claim *karpv1.NodeClaim, why, message string) error
}

// Config is what a Roller is made of. Every field is required but Window and Ours.
type Config struct {
	// Client reads from the cache, with the indexes of package index.
	Client client.Reader
	// Guard lets effects happen while leading only.
	Guard leadership.Guard
	// Mover moves the nodes.
	Mover Mover
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Metrics count what may go.
	Metrics *voluntary.Metrics
	// Window is the longest soft window before an expiry of nodes whose NodePool does not say its own; zero means that there is none.
	Window time.Duration
	// Ours says whether a claim is ours to move: a live Karpenter's are not. Nil means all are.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Roller replaces drifted and expiring nodes.
type Roller struct {
	config Config
	// told are the reasons that were told of objects, and when. Only Run's goroutine touches it.
	told map[types.UID]telling
}

type telling struct {
	message string
	at      time.Time
}

// New returns a Roller; Run starts it.
func New(c Config) (*Roller, error) {
	if c.Client == nil || c.Guard == nil || c.Mover == nil || c.Events == nil || c.Metrics == nil {
		return nil, errors.New("roll: Client, Guard, Mover, Events and Metrics are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	return &Roller{config: c, told: map[types.UID]telling{}}, nil
}

// Run makes a pass every other second until ctx ends, while leading.
func (r *Roller) Run(ctx context.Context) error {
	failed := func(err error) {
		klog.FromContext(ctx).Error(err, "Could not look for nodes to replace; trying again")
	}
	leadership.Every(ctx, r.config.Guard, period, failed, r.Pass)
	return nil
}

// Pass looks at all candidates once and hands those that may go to the Mover. ctx is an effect's.
func (r *Roller) Pass(ctx context.Context) error {
	began := time.Now()
	// 1. Who is due, and what is in the way.
	list, err := r.candidates(ctx, began)
	if err != nil {
		return err
	}
	// 2. Who goes first.
	Order(list)
	// 3. As many as the budgets allow.
	eligible := 0
	full := map[string]bool{}
	var errs []error
	for _, c := range list {
		if why := c.Blocked(); why != "" {
			r.tell(c.Claim, why, began)
			r.tell(c.Node, why, began)
			continue
		}
		eligible++
		pool := c.Claim.Labels[karpv1.NodePoolLabelKey]
		if full[pool] {
			continue
		}
		err := r.config.Mover.Replace(ctx, c.Claim, c.Due.Why, c.Due.Message)
		var refused *budget.RefusedError
		switch {
		case err == nil, errors.Is(err, ErrBusy):
		case errors.As(err, &refused):
			full[pool] = !refused.Taken
			r.tellPool(ctx, refused, began)
		default:
			errs = append(errs, fmt.Errorf("replace NodeClaim %s: %w", c.Claim.Name, err))
		}
	}
	r.config.Metrics.Eligible(Drifted, eligible)
	if len(list) > 0 {
		r.config.Metrics.Evaluated(Drifted, "", time.Since(began))
	}
	r.forget(began)
	return errors.Join(errs...)
}

// candidates are the nodes that are due.
func (r *Roller) candidates(ctx context.Context, now time.Time) ([]Candidate, error) {
	claims, pools := &karpv1.NodeClaimList{}, &karpv1.NodePoolList{}
	for _, list := range []client.ObjectList{claims, pools} {
		if err := r.config.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	poolOf := make(map[string]*karpv1.NodePool, len(pools.Items))
	for i := range pools.Items {
		poolOf[pools.Items[i].Name] = &pools.Items[i]
	}
	var out []Candidate
	for i := range claims.Items {
		claim := &claims.Items[i]
		window := expire.Window(claim, poolOf[claim.Labels[karpv1.NodePoolLabelKey]], r.config.Window)
		if due := DueOf(claim, window, now); due.Why != "" && r.config.Ours(claim) {
			out = append(out, Candidate{Claim: claim.DeepCopy(), Due: due})
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	policies := &policyv1.PodDisruptionBudgetList{}
	if err := r.config.Client.List(ctx, policies); err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	return r.look(ctx, out, policies, now)
}

// forget lets go of what was told long ago.
func (r *Roller) forget(now time.Time) {
	for uid, t := range r.told {
		if now.Sub(t.at) > tellAgain {
			delete(r.told, uid)
		}
	}
}

// news says whether a message about an object is one, and remembers it.
func (r *Roller) news(object client.Object, message string, now time.Time) bool {
	if t, ok := r.told[object.GetUID()]; ok && t.message == message && now.Sub(t.at) <= tellAgain {
		return false
	}
	r.told[object.GetUID()] = telling{message: message, at: now}
	return true
}

func (r *Roller) tell(object client.Object, message string, now time.Time) {
	if r.news(object, message, now) {
		r.config.Events.Eventf(object, corev1.EventTypeNormal, "DisruptionBlocked", "%s", message)
	}
}

func (r *Roller) tellPool(ctx context.Context, refused *budget.RefusedError, now time.Time) {
	pool := &karpv1.NodePool{}
	if refused.NodePool == "" || r.config.Client.Get(ctx, client.ObjectKey{Name: refused.NodePool}, pool) != nil {
		return
	}
	r.tell(pool, refused.Error(), now)
}

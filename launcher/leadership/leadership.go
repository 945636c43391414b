package leadership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/liveness"
)

const (
	// pollLeading is the period of reading the Lease while leading: the default retry period of leader election, in which the holder renews
	// it.
	pollLeading = 2 * time.Second
	// pollWaiting is the period while not leading: it bounds how long a new leader's launcher stays idle.
	pollWaiting = 500 * time.Millisecond
	// readTimeout bounds one read of the Lease.
	readTimeout = 5 * time.Second
	// resignTimeout bounds how long Resign waits for running effects.
	resignTimeout = 2 * time.Second
)

// ErrLost is the cause of an effect's context that ended because leadership did.
var ErrLost = errors.New("leadership lost")

// Guard is the part of leadership that the rest of the launcher needs. It is safe for concurrent use.
type Guard interface {
	// Context returns a context for effects that ends when ctx does or when leadership does, with ErrLost as its
	// cause; false while not leading. The caller calls the CancelFunc once the effects are over.
	Context(ctx context.Context) (context.Context, context.CancelFunc, bool)

	// Wait does the same but waits until leading; it fails only when ctx ends.
	Wait(ctx context.Context) (context.Context, context.CancelFunc, error)
}

// Config holds the dependencies of a Leadership.
type Config struct {
	// Reader reads the Lease, from the API server and not from a cache. Required.
	Reader client.Reader
}

// Leadership follows the Lease of the scheduler in the same pod. Until Lead is called it never leads.
type Leadership struct {
	config Config
	poke   chan struct{}
	loop   liveness.Loop

	mu       sync.Mutex
	identity string
	lease    client.ObjectKey
	resigned string
	// until is when the right to act ends by the wall clock, latest by the monotonic one: the earlier of the two counts. The first goes on
	// while the machine sleeps, the second where the wall clock is set back.
	until, latest time.Time

	leading bool
	changed chan struct{}
	expiry  *time.Timer
	effects map[*effect]struct{}
	idle    chan struct{}
}

type effect struct{ cancel context.CancelCauseFunc }

var _ Guard = (*Leadership)(nil)

// New returns a Leadership that Run keeps up to date.
func New(c Config) (*Leadership, error) {
	if c.Reader == nil {
		return nil, errors.New("leadership: Reader is required")
	}
	return &Leadership{
		config: c, poke: make(chan struct{}, 1),
		changed: make(chan struct{}), effects: map[*effect]struct{}{}, idle: make(chan struct{}),
	}, nil
}

// Run reads the Lease until ctx ends, then gives leadership up.
func (l *Leadership) Run(ctx context.Context) error {
	defer l.set(time.Time{})
	defer l.loop.Stop()
	failing := false // Looks are half a second apart: the first failure of a row is logged, and its end.
	for {
		l.loop.Tick()
		switch err := l.Refresh(ctx); {
		case err != nil && ctx.Err() == nil && !failing:
			klog.FromContext(ctx).Error(err, "Could not read the leader election Lease")
			failing = true
		case err == nil && failing:
			klog.FromContext(ctx).Info("Read the leader election Lease again")
			failing = false
		}
		wait := pollWaiting
		if l.Leading() {
			wait = pollLeading
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.poke:
		case <-time.After(wait):
		}
	}
}

// Alive returns an error if the loop of Run hangs; see package liveness.
func (l *Leadership) Alive(r *http.Request) error { return l.loop.Check(r) }

// Lead sets the identity with which the scheduler in the same pod takes part in leader election, and its Lease. A different identity ends
// leadership until the Lease names the new one. An identity that resigned stays resigned.
func (l *Leadership) Lead(identity, leaseNamespace, leaseName string) error {
	if identity == "" || leaseNamespace == "" || leaseName == "" {
		return fmt.Errorf("lead: identity %q, lease_namespace %q and lease_name %q must all be set", identity, leaseNamespace, leaseName)
	}
	key := client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}
	l.mu.Lock()
	defer l.mu.Unlock()
	if identity == l.identity && key == l.lease {
		return nil
	}
	l.identity, l.lease = identity, key
	l.setLocked(time.Time{})
	select {
	case l.poke <- struct{}{}:
	default:
	}
	return nil
}

// Refresh reads the Lease now. If that fails, leadership lasts as long as the previous reading allows.
func (l *Leadership) Refresh(ctx context.Context) error {
	l.mu.Lock()
	identity, key := l.identity, l.lease
	l.mu.Unlock()
	if identity == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	lease, asked := &coordinationv1.Lease{}, time.Now()
	err := l.config.Reader.Get(ctx, key, lease)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Lease %s: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if identity == l.identity && key == l.lease {
		until := Until(lease, identity)
		if !until.Equal(l.until) { // A renewal.
			l.latest = asked.Add(term(lease))
		}
		l.setLocked(until)
	}
	return nil
}

// Leading reports whether effects are allowed now.
func (l *Leadership) Leading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// Changed returns a channel that is closed when Leading next changes.
func (l *Leadership) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Context implements Guard.
func (l *Leadership) Context(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.check() {
		return ctx, func() {}, false
	}
	effectCtx, cancel := context.WithCancelCause(ctx)
	e := &effect{cancel: cancel}
	l.effects[e] = struct{}{}
	return effectCtx, func() { l.end(e) }, true
}

// Wait implements Guard.
func (l *Leadership) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	for {
		changed := l.Changed()
		if effectCtx, cancel, ok := l.Context(ctx); ok {
			return effectCtx, cancel, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-changed:
		}
	}
}

// Resign ends leadership for the current identity permanently, and waits until no effect is running, at most 2 seconds. It returns an error
// if an effect still runs.
func (l *Leadership) Resign(ctx context.Context) error {
	l.mu.Lock()
	l.resigned = l.identity
	l.setLocked(time.Time{})
	l.mu.Unlock()
	timeout := time.After(resignTimeout)
	for {
		l.mu.Lock()
		running, idle := len(l.effects), l.idle
		l.mu.Unlock()
		if running == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-timeout:
			return fmt.Errorf("resign: %s still running after %s", catalog.CountText(running, "effect"), resignTimeout)
		case <-ctx.Done():
			return fmt.Errorf("resign: %s still running: %w", catalog.CountText(running, "effect"), ctx.Err())
		}
	}
}

func (l *Leadership) end(e *effect) {
	e.cancel(context.Canceled)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.effects[e]; !ok {
		return
	}
	delete(l.effects, e)
	if len(l.effects) == 0 {
		close(l.idle)
		l.idle = make(chan struct{})
	}
}

func (l *Leadership) set(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(until)
}

func (l *Leadership) setLocked(until time.Time) {
	if l.resigned != "" && l.resigned == l.identity {
		until = time.Time{}
	}
	l.until = until
	if l.expiry != nil {
		l.expiry.Stop()
		l.expiry = nil
	}
	if d := min(time.Until(until.Round(0)), time.Until(l.latest)); d > 0 {
		l.expiry = time.AfterFunc(d, func() { l.Leading() })
	}
	l.check()
}

// check updates leading from until and the clock. The caller holds mu.
func (l *Leadership) check() bool {
	now := time.Now()
	if leading := now.Round(0).Before(l.until) && now.Before(l.latest); leading != l.leading {
		l.leading = leading
		close(l.changed)
		l.changed = make(chan struct{})
		if !leading {
			for e := range l.effects {
				e.cancel(ErrLost)
			}
		}
	}
	return l.leading
}

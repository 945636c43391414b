package aws

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// market is what can be bought and for how much. Its maps are never changed once they are shared.
type market struct {
	facts    map[string]catalog.Facts
	onDemand onDemandPrices
	spot     spotPrices
	// generation rises with each change of facts.
	generation uint64
}

// marketCache keeps one market. loading is held, as a slot of a channel so that waiting honours ctx, by who asks AWS for
// the first one.
type marketCache struct {
	loading chan struct{}

	mu      sync.Mutex
	current *market
}

func newMarketCache() *marketCache { return &marketCache{loading: make(chan struct{}, 1)} }

func (m *marketCache) get() *market {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current
}

func (m *marketCache) set(next market) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current != nil {
		next.generation = m.current.generation + 1
	}
	m.current = &next
}

// update replaces parts of the market.
func (m *marketCache) update(change func(*market)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := *m.current
	change(&next)
	m.current = &next
}

// market returns what is known, asking AWS for all of it where nothing is.
func (c *Cloud) market(ctx context.Context) (*market, error) {
	if m := c.known.get(); m != nil {
		return m, nil
	}
	select {
	case c.known.loading <- struct{}{}:
		defer func() { <-c.known.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m := c.known.get(); m != nil {
		return m, nil
	}
	var next market
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { next.facts, err = c.fetchFacts(groupCtx); return err })
	group.Go(func() (err error) { next.onDemand, err = c.fetchOnDemandPrices(groupCtx); return err })
	group.Go(func() (err error) { next.spot, err = c.fetchSpotPrices(groupCtx); return err })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	c.known.set(next)
	c.metrics.types(next)
	c.changed.fire()
	return c.known.get(), nil
}

// task is something that Refresh does again and again.
type task struct {
	name   string
	period time.Duration
	run    func(context.Context) error
	due    time.Time
	failed int
}

// Refresh implements cloud.Cloud. What fails is tried again soon; what is known stays in use meanwhile. It returns nil
// when ctx ends.
func (c *Cloud) Refresh(ctx context.Context) error {
	p, now := c.cfg.Periods, time.Now()
	tasks := []*task{
		{name: "instance types", period: p.InstanceTypes, run: c.refreshFacts, due: now},
		{name: "on-demand prices", period: p.OnDemandPrices, run: c.refreshOnDemand, due: now.Add(p.OnDemandPrices)},
		{name: "spot prices", period: p.SpotPrices, run: c.refreshSpot, due: now.Add(p.SpotPrices)},
		{name: "launch templates", period: p.LaunchTemplates, run: c.sweepTemplates, due: now},
	}
	for {
		changed := c.changed.wait()
		next := c.without.expire(time.Now())
		for _, t := range tasks {
			c.runDue(ctx, t)
			if next.IsZero() || t.due.Before(next) {
				next = t.due
			}
		}
		timer := time.NewTimer(max(time.Until(next), 10*time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
			// An offering may have become unavailable: its end has to be waited for too.
		case <-timer.C:
		}
		timer.Stop()
	}
}

// runDue runs a task whose time has come; after a failure its next time is soon, later with each failure.
func (c *Cloud) runDue(ctx context.Context, t *task) {
	if time.Now().Before(t.due) || ctx.Err() != nil {
		return
	}
	err := t.run(ctx)
	if err == nil {
		t.failed, t.due = 0, time.Now().Add(jittered(t.period))
		return
	}
	t.failed++
	t.due = time.Now().Add(jittered(min(t.period, 5*time.Second<<min(t.failed, 6))))
	if ctx.Err() == nil {
		c.cfg.Logger.Error(err, "Refreshing what AWS offers failed; it is tried again", "what", t.name, "failures", t.failed)
	}
}

// jittered is a period less up to a tenth of it, so that processes started together do not ask together for ever.
func jittered(d time.Duration) time.Duration { return d - rand.N(d/10+1) }

func (c *Cloud) refreshFacts(ctx context.Context) error {
	if c.known.get() == nil {
		_, err := c.market(ctx)
		return err
	}
	facts, err := c.fetchFacts(ctx)
	if err != nil {
		return err
	}
	c.known.update(func(m *market) { m.facts, m.generation = facts, m.generation+1 })
	c.metrics.types(*c.known.get())
	c.changed.fire()
	return nil
}

func (c *Cloud) refreshOnDemand(ctx context.Context) error {
	known, err := c.market(ctx)
	if err != nil {
		return err
	}
	prices, err := c.fetchOnDemandPrices(ctx)
	if err != nil || maps.Equal(prices, known.onDemand) {
		return err
	}
	c.known.update(func(m *market) { m.onDemand = prices })
	c.changed.fire()
	return nil
}

func (c *Cloud) refreshSpot(ctx context.Context) error {
	known, err := c.market(ctx)
	if err != nil {
		return err
	}
	prices, err := c.fetchSpotPrices(ctx)
	if err != nil || maps.EqualFunc(prices, known.spot, maps.Equal[map[string]float64]) {
		return err
	}
	c.known.update(func(m *market) { m.spot = prices })
	c.changed.fire()
	return nil
}

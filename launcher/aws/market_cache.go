package aws

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// market holds the instance types and their prices. Its maps are not changed once they are shared.
type market struct {
	facts    map[string]catalog.Facts
	onDemand onDemandPrices
	spot     spotPrices
	// dedicated are the prices on demand with dedicated tenancy; empty if AWS has none.
	dedicated onDemandPrices
	// rates are the prices of what nodes use beside their instances; nil for the built-in ones.
	rates *catalog.Rates
	// onDemandAt, dedicatedAt, spotAt and ratesAt are when AWS last returned the prices; zero if it has not. Then the built-in on-demand prices and rates
	// are used, and no spot prices.
	onDemandAt, dedicatedAt, spotAt, ratesAt time.Time
	// generation increases with each change of facts and rates.
	generation uint64
}

// marketCache keeps one market. loading is a lock, held by the caller that loads the first market. It is a channel so that waiting for it
// ends with ctx.
type marketCache struct {
	loading chan struct{}
	// failed is why the first market could not be loaded the last time, at failedAt. They are of the holder of loading alone.
	failed   error
	failedAt time.Time

	mu      sync.Mutex
	current *market
}

func newMarketCache() *marketCache { return &marketCache{loading: make(chan struct{}, 1)} }

func (m *marketCache) get() *market {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current
}

// of returns what is known of an instance type.
func (m *marketCache) of(instanceType string) (catalog.Facts, bool) {
	current := m.get()
	if current == nil {
		return catalog.Facts{}, false
	}
	facts, ok := current.facts[instanceType]
	return facts, ok
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

// failureStands is how long a failure to load the first market answers others: those that waited for it, and the EC2NodeClasses after the one that
// asked. Each of them would otherwise wait for an AWS that fails as long as the first.
const failureStands = time.Second

// market returns the current market. If there is none, it loads all parts from AWS.
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
	if c.known.failed != nil && time.Since(c.known.failedAt) < failureStands {
		return nil, c.known.failed
	}
	next, err := c.firstMarket(ctx)
	if err != nil && ctx.Err() == nil {
		c.known.failed, c.known.failedAt = err, time.Now()
	}
	if err != nil {
		return nil, err
	}
	c.known.set(next)
	c.metrics.types(next)
	c.changed.fire()
	return c.known.get(), nil
}

// firstMarket loads all parts. It fails without instance types; prices may be missing.
func (c *Cloud) firstMarket(ctx context.Context) (next market, err error) {
	now := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		facts, err := c.fetchFacts(groupCtx)
		next.facts = facts
		return c.metrics.refreshed(partTypes, err)
	})
	group.Go(func() error {
		soon, cancel := context.WithTimeout(groupCtx, c.cfg.Periods.FirstPrices)
		defer cancel()
		prices, answered, err := c.onDemandPrices(soon)
		if next.onDemand = prices; answered {
			next.onDemand, next.onDemandAt = withLastPrices(c, prices), now
		}
		return c.later(groupCtx, partOnDemand, err)
	})
	group.Go(func() error {
		soon, cancel := context.WithTimeout(groupCtx, c.cfg.Periods.FirstPrices)
		defer cancel()
		prices, answered, err := dedicatedPrices(soon, c)
		if answered {
			next.dedicated, next.dedicatedAt = prices, now
		}
		return c.later(groupCtx, partDedicated, err)
	})
	group.Go(func() error {
		soon, cancel := context.WithTimeout(groupCtx, c.cfg.Periods.FirstPrices)
		defer cancel()
		prices, err := c.spotPrices(soon)
		if next.spot = prices; err == nil {
			next.spotAt = now
		}
		return c.later(groupCtx, partSpot, err)
	})
	group.Go(func() error {
		soon, cancel := context.WithTimeout(groupCtx, c.cfg.Periods.FirstPrices)
		defer cancel()
		rates, answered, err := c.chargeRates(soon)
		if answered {
			next.rates, next.ratesAt = rates, now
		}
		return c.later(groupCtx, partCharges, err)
	})
	return next, group.Wait()
}

// later records that a part of the first market must be loaded again. It returns an error only when ctx has ended.
func (c *Cloud) later(ctx context.Context, part string, err error) error {
	switch {
	case c.metrics.refreshed(part, err) == nil || ctx.Err() != nil:
	case isNoSpot(err):
		c.cfg.Logger.Info("Spot capacity is not used until EC2 returns spot prices", "why", err.Error())
	default:
		c.cfg.Logger.Error(err, "What AWS offers is not complete yet; it is asked for again", "what", part)
	}
	return ctx.Err()
}

// These are the parts of AWS's offer, as logs and metrics name them.
const (
	partTypes     = "instance types"
	partOnDemand  = "on-demand prices"
	partDedicated = "prices of dedicated tenancy"
	partSpot      = "spot prices"
	partShifts    = "zonal shifts"
	partCharges   = "prices of volumes, addresses and CPU credits"
	// The following parts are loaded when they are needed.
	partCluster    = "cluster"
	partSubnets    = "subnets"
	partGroups     = "security groups"
	partPlacements = "placement groups"
	partImages     = "images"
)

// task is periodic work of Refresh.
type task struct {
	name   string
	period time.Duration
	run    func(context.Context) error
}

// Refresh implements cloud.Cloud. Each task has its own goroutine, so that a service that does not answer delays no other task. A failed
// task is retried soon; the last answer stays in use meanwhile. Refresh returns nil after ctx has ended and all tasks have returned.
func (c *Cloud) Refresh(ctx context.Context) error {
	p := c.cfg.Periods
	var group sync.WaitGroup
	tasks := []task{
		{name: partTypes, period: p.InstanceTypes, run: c.refreshFacts},
		{name: partOnDemand, period: p.OnDemandPrices, run: c.refreshOnDemand},
		{name: partDedicated, period: p.OnDemandPrices, run: func(ctx context.Context) error { return refreshDedicated(ctx, c) }},
		{name: partSpot, period: p.SpotPrices, run: c.refreshSpot},
		{name: partCharges, period: p.OnDemandPrices, run: c.refreshRates},
	}
	if c.cfg.ZonalShift {
		tasks = append(tasks, task{name: partShifts, period: p.ZonalShifts, run: func(ctx context.Context) error {
			begun, ended, err := c.refresh(ctx)
			c.metrics.shifts(begun, ended)
			if len(begun)+len(ended) > 0 {
				c.cfg.Logger.Info("Zonal shifts of the cluster have changed", "unavailable", begun, "restored", ended)
				c.changed.fire()
			}
			return err
		}})
	}
	for _, t := range tasks {
		group.Go(func() { c.keep(ctx, t) })
	}
	group.Go(func() { c.expire(ctx) })
	group.Wait()
	return nil
}

// expire drops unavailable offerings when their time is over, and announces that a Capacity Block closes: its offering becomes unavailable.
func (c *Cloud) expire(ctx context.Context) {
	for {
		// An offering that becomes unavailable meanwhile may be the next to expire.
		changed := c.changed.wait()
		var timer <-chan time.Time
		next, ending := c.reserved.closed(time.Now())
		if ending {
			c.changed.fire()
		}
		if again := c.without.expire(time.Now()); next.IsZero() || !again.IsZero() && again.Before(next) {
			next = again
		}
		if !next.IsZero() {
			timer = time.After(max(time.Until(next), 10*time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer:
		}
	}
}

// keep runs a task periodically. After a failure it runs it again soon, with a delay that grows with each failure.
func (c *Cloud) keep(ctx context.Context, t task) {
	for failed := 0; ; {
		wait := t.period
		if err := c.metrics.refreshed(t.name, t.run(ctx)); err == nil {
			failed = 0
		} else if failed++; ctx.Err() == nil {
			wait = min(t.period, 5*time.Second<<min(failed, 6))
			if isNoSpot(err) {
				c.cfg.Logger.V(1).Info("Still without a part of what AWS offers; it is asked for again", "what", t.name, "why", err.Error())
			} else {
				c.cfg.Logger.Error(err, "Refreshing what AWS offers failed; it is tried again", "what", t.name, "failures", failed)
			}
		}
		timer := time.NewTimer(jittered(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// jittered returns a period shortened by up to a tenth, so that processes that started together do not call AWS at the same times.
func jittered(d time.Duration) time.Duration { return d - rand.N(d/10+1) }

// recent reports whether a part loaded at that time needs no refresh yet: Refresh begins at the same time as the first market.
func recent(at time.Time, period time.Duration) bool {
	return !at.IsZero() && time.Since(at) < period/2
}

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
	if err != nil || recent(known.onDemandAt, c.cfg.Periods.OnDemandPrices) {
		return err
	}
	prices, answered, err := c.onDemandPrices(ctx)
	if !answered {
		return err // The previous prices stay: AWS's last answer, or the built-in prices.
	}
	prices = withLastPrices(c, prices)
	c.known.update(func(m *market) { m.onDemand, m.onDemandAt = prices, time.Now() })
	if !maps.Equal(prices, known.onDemand) {
		c.changed.fire()
	}
	return nil
}

func refreshDedicated(ctx context.Context, c *Cloud) error {
	known, err := c.market(ctx)
	if err != nil || recent(known.dedicatedAt, c.cfg.Periods.OnDemandPrices) {
		return err
	}
	prices, answered, err := dedicatedPrices(ctx, c)
	if !answered {
		return err
	}
	c.known.update(func(m *market) { m.dedicated, m.dedicatedAt = prices, time.Now() })
	if !maps.Equal(prices, known.dedicated) {
		c.changed.fire()
	}
	return nil
}

func (c *Cloud) refreshSpot(ctx context.Context) error {
	known, err := c.market(ctx)
	if err != nil || recent(known.spotAt, c.cfg.Periods.SpotPrices) {
		return err
	}
	prices, err := c.spotPrices(ctx)
	if none, ok := errors.AsType[*noSpotError](err); ok && len(known.spot) > 0 {
		return none.why // EC2 had prices before: they stay in use, and this is a failure.
	}
	if err != nil {
		return err
	}
	c.known.update(func(m *market) { m.spot, m.spotAt = prices, time.Now() })
	if !maps.EqualFunc(prices, known.spot, maps.Equal[map[string]float64]) {
		c.changed.fire()
	}
	return nil
}

func (c *Cloud) refreshRates(ctx context.Context) error {
	known, err := c.market(ctx)
	if err != nil || recent(known.ratesAt, c.cfg.Periods.OnDemandPrices) {
		return err
	}
	rates, answered, err := c.chargeRates(ctx)
	if !answered {
		return err
	}
	changed := !rates.Equal(known.rates)
	c.known.update(func(m *market) {
		m.rates, m.ratesAt = rates, time.Now()
		if changed {
			m.generation++
		}
	})
	if changed {
		c.changed.fire()
	}
	return nil
}

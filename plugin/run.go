package plugin

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// answerers is how many of the launcher's questions are answered at a time: each may wait some seconds.
const answerers = 4

// Run works until the context ends. Call it once, after Install and before or while the scheduler runs.
func (p *Plugin) Run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("slipway")
	ctx = klog.NewContext(ctx, logger)
	var all sync.WaitGroup
	defer func() {
		if err := p.link.Close(); err != nil {
			logger.V(2).Info("Link to the launcher did not close", "err", err)
		}
	}()
	all.Go(func() { p.runPlanner(ctx) })
	all.Go(func() { p.planner.consolidator.run(ctx) })
	all.Go(func() { p.status.Run(ctx) })
	all.Go(func() { p.link.RunCatalog(ctx) })
	all.Go(func() { p.link.RunQuestions(ctx) })
	for range answerers {
		all.Go(func() { p.answerQuestions(ctx) })
	}
	all.Wait()
}

// runPlanner is the planner's loop. A panic anywhere in it costs the step, not the loop.
func (p *Plugin) runPlanner(ctx context.Context) {
	// Pods are looked up in informers: before they are synced, all would seem gone, and what was promised to them would be forgotten.
	// The factory's own wait is over at once as long as none is started, and kube-scheduler starts them later.
	cache.WaitForCacheSync(ctx.Done(), p.podsSynced, p.nodesSynced)
	for ctx.Err() == nil {
		next := p.safeStep(ctx)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-p.collected.Wake():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (p *Plugin) safeStep(ctx context.Context) (next time.Time) {
	defer func() {
		if cause := recover(); cause != nil {
			p.metrics.panics.WithLabelValues("Step").Inc()
			klog.FromContext(ctx).Error(nil, "The planner panicked and goes on", "panic", cause)
			next = time.Now().Add(housekeeping)
		}
	}()
	return p.planner.step(ctx, time.Now())
}

// meanwhile makes a call that may take long in a goroutine of its own, and reads what the launcher tells until it is over.
func (p *planner) meanwhile(ctx context.Context, call func()) {
	over := make(chan any, 1)
	go func() {
		defer func() { over <- recover() }()
		call()
	}()
	// Whatever woke the planner meanwhile waits for the step after this one.
	defer p.collected.Notify()
	for {
		select {
		case cause := <-over:
			if cause != nil {
				panic(cause)
			}
			return
		case <-p.collected.Wake():
			p.hear(ctx, time.Now())
		}
	}
}

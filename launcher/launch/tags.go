package launch

import (
	"context"
	"sync"

	"k8s.io/klog/v2"
)

// tagsAtOnce is how many calls tag instances at once; EC2 takes ten a second in the long run.
const tagsAtOnce = 8

// tags are those that launched instances still need. They are for humans and bills, the record is the claim: nobody waits for
// them, and what a crash or EC2 prevents the garbage collection catches up on.
type tags struct {
	wake chan struct{}

	mu    sync.Mutex
	queue []tag
}

// tag is what an instance is to be told.
type tag struct {
	instanceID string
	tags       map[string]string
}

func newTags() *tags { return &tags{wake: make(chan struct{}, 1)} }

func (t *tags) add(one tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, one)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *tags) take() []tag {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.queue
	t.queue = nil
	return out
}

// writeTags tags until ctx ends.
func (l *Launcher) writeTags(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.tags.wake:
		}
		var wg sync.WaitGroup
		slots := make(chan struct{}, tagsAtOnce)
		for _, t := range l.tags.take() {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				l.writeTag(ctx, t)
			})
		}
		wg.Wait()
	}
}

func (l *Launcher) writeTag(ctx context.Context, t tag) {
	effects, cancel, err := l.config.Guard.Wait(ctx)
	if err != nil {
		return
	}
	defer cancel()
	if err := l.config.Cloud.Tag(effects, t.instanceID, t.tags); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Instance could not be tagged", "instanceID", t.instanceID)
	}
}

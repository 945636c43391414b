package launch

import (
	"context"
	"sync"

	"k8s.io/klog/v2"
)

// tagsAtOnce is the number of concurrent tag calls; EC2 allows ten per second in the long run.
const tagsAtOnce = 8

// tags is the queue of tags that launched instances still need. Tags are for people and bills; the record is the claim. No launch waits for
// them, and the garbage collection writes those that are missing after a crash or an error.
type tags struct {
	wake chan struct{}

	mu    sync.Mutex
	queue []tag
}

// tag is an instance with the tags to write.
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

// writeTags writes tags until ctx ends.
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

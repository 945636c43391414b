package collect_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/collect"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// lead is leadership that is lost and acquired again.
type lead struct {
	mu   sync.Mutex
	lost chan struct{}
}

func (l *lead) acquire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = make(chan struct{})
}

func (l *lead) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.lost)
	l.lost = nil
}

// Context implements leadership.Guard.
func (l *lead) Context(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	if lost == nil {
		return ctx, func() { cancel(nil) }, false
	}
	go func() {
		select {
		case <-lost:
			cancel(leadership.ErrLost)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }, true
}

// Wait implements leadership.Guard.
func (l *lead) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	for ctx.Err() == nil {
		effects, cancel, leads := l.Context(ctx)
		if leads {
			return effects, cancel, nil
		}
		cancel()
		time.Sleep(100 * time.Millisecond)
	}
	return nil, nil, ctx.Err()
}

// slow is a cloud whose answer takes ten seconds where it is told so.
type slow struct {
	*memory.Cloud
	hangs, asked atomic.Bool
}

// Instances implements collect.Instances.
func (s *slow) Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error) {
	if s.hangs.Load() {
		s.asked.Store(true)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Second):
		}
	}
	return s.Cloud.Instances(ctx, sel)
}

// A leader that was away looks as often as at first: the one in its place may have crashed. To lose leadership in the middle of a round is no failure.
func TestRoundsBeginAgainWithLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2, guard := &slow{Cloud: memory.New(memory.Config{})}, &lead{}
		api := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
		subject, err := collect.New(collect.Config{Reader: api, Client: api, Cloud: ec2, Guard: guard, Ender: &ender{}, Events: &record.FakeRecorder{}})
		if err != nil {
			t.Fatal(err)
		}
		var failures []string
		log := funcr.New(func(_, line string) { failures = append(failures, line) }, funcr.Options{Verbosity: -1})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), log))
		go func() { _ = subject.Run(ctx) }()
		guard.acquire()
		time.Sleep(10 * time.Minute)
		ec2.hangs.Store(true)
		for !ec2.asked.Load() {
			time.Sleep(time.Second)
		}
		guard.lose()
		ec2.hangs.Store(false)
		time.Sleep(30 * time.Minute)
		leaked := ec2.Put(cloud.Instance{})
		if time.Sleep(5 * time.Minute); !slices.Contains(ec2.Live(), leaked) {
			t.Error("an instance was ended without leadership")
		}
		guard.acquire()
		time.Sleep(5 * time.Second)
		if slices.Contains(ec2.Live(), leaked) {
			t.Error("a leak is not found as soon as leadership is acquired")
		}
		leaked = ec2.Put(cloud.Instance{})
		if time.Sleep(time.Minute); slices.Contains(ec2.Live(), leaked) {
			t.Error("a leak is not found in the minute after leadership was acquired")
		}
		cancel()
		synctest.Wait()
		if len(failures) > 0 {
			t.Errorf("failures %q", failures)
		}
	})
}

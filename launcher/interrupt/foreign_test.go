package interrupt_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/interrupt"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

// looks counts the NodeClaims that the cache hands out, and calls after once a look for one that is being launched was answered.
type looks struct {
	client.Client
	after func()

	mu     sync.Mutex
	handed int
}

func (l *looks) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Client.List(ctx, list, opts...)
	if claims, ok := list.(*karpv1.NodeClaimList); ok {
		o := (&client.ListOptions{}).ApplyOptions(opts)
		n := len(claims.Items)
		if o.Limit > 0 {
			n = min(n, int(o.Limit)) // The fake client pays no heed to it, as the cache does.
		}
		l.mu.Lock()
		l.handed += n
		l.mu.Unlock()
		if _, launching := o.FieldSelector.RequiresExactMatch(index.ClaimLaunching); launching && l.after != nil {
			l.after()
		}
	}
	return err
}

// amid runs test in a bubble of its own time, while the queue is read; busy reports whether launches are in progress.
func amid(t *testing.T, busy func() bool, test func(s *scene, l *looks)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		s := &scene{t: t, queue: memory.New(memory.Config{}), start: time.Now()}
		b := fake.NewClientBuilder().WithScheme(scheme.Scheme)
		index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
		s.api = b.Build()
		l := &looks{Client: s.api}
		subject, err := interrupt.New(interrupt.Config{
			Client: l, Launching: busy, Queue: s.queue, Checker: s.queue, Guard: leadershiptest.Always{}, Leading: func() bool { return true }, Ender: s, Events: s,
			Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = subject.Run(ctx) }()
		test(s, l)
	})
}

// many claims, and messages.
const many = 20

func idle() bool { return false }

// rest advances the time, and waits until nothing changes.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Messages about other clusters' instances cost no look at claims that are launched, however many there are.
func TestForeignMessagesCostNoClaims(t *testing.T) {
	amid(t, idle, func(s *scene, l *looks) {
		for i := range many {
			s.addClaim(fmt.Sprintf("default-%d", i), map[string]string{"instance": fmt.Sprintf("i-ours-%d", i), "launching": ""})
		}
		for i := range many {
			s.queue.Send(cloud.Message{Kind: cloud.SpotInterrupted, InstanceIDs: []string{fmt.Sprintf("i-theirs-%d", i)}})
		}
		rest(10 * time.Second)
		if left := s.queue.Queued(); left != 0 {
			t.Errorf("%d messages about other clusters are left", left)
		}
		if l.handed != 0 {
			t.Errorf("%d messages about other clusters had the cache hand out %d of %d NodeClaims", many, l.handed, many)
		}
	})
}

// For many claims that are being launched, one read decides about a message that must be delivered again.
func TestUnsureMessagesCostOneClaim(t *testing.T) {
	amid(t, idle, func(s *scene, l *looks) {
		for i := range many {
			s.addClaim(fmt.Sprintf("default-%d", i), map[string]string{"launching": ""})
		}
		s.queue.Send(cloud.Message{Kind: cloud.SpotInterrupted, InstanceIDs: []string{"i-theirs"}})
		rest(time.Second)
		if left := s.queue.Queued(); left != 1 || l.handed != 1 {
			t.Errorf("%d messages are left, want 1; the cache handed out %d NodeClaims, want 1", left, l.handed)
		}
	})
}

// An instance that is recorded between the two looks of one message is found: the message acts, and is not taken for another cluster's.
func TestRecordedBetweenTheLooks(t *testing.T) {
	amid(t, idle, func(s *scene, l *looks) {
		l.after = sync.OnceFunc(func() { s.addClaim("default-1", map[string]string{"instance": "i-1", "launching": ""}) })
		s.queue.Send(cloud.Message{Kind: cloud.SpotInterrupted, InstanceIDs: []string{"i-1"}})
		rest(time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.trace) == 0 || s.queue.Queued() != 0 {
			t.Errorf("%d messages are left, and what happened is %q, want the end of default-1", s.queue.Queued(), s.trace)
		}
	})
}

// While this process launches, a message about an unknown instance is delivered again, although the cache shows no launch yet; an old one is
// not.
func TestMessageAmidALaunch(t *testing.T) {
	busy := func() bool { return true }
	amid(t, busy, func(s *scene, _ *looks) {
		s.queue.Send(cloud.Message{Kind: cloud.SpotInterrupted, InstanceIDs: []string{"i-1"}})
		rest(time.Second)
		if left := s.queue.Queued(); left != 1 {
			t.Errorf("%d messages are left amid a launch, want 1", left)
		}
		rest(4 * time.Minute)
		if left := s.queue.Queued(); left != 0 {
			t.Errorf("%d messages are left after four minutes, want none: no launch takes that long to be recorded", left)
		}
	})
}

package sim

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// lightLeaseInterval is six times the kubelet's: of thousands of machines, the renewals are most of all requests.
	lightLeaseInterval = time.Minute
	// LightGrace is how long kube-controller-manager must wait for the renewal of a light machine's Lease: more than three of its intervals, since a busy API
	// server answers late. A kubelet has 50 s, five of its own.
	LightGrace = 200 * time.Second
	// leaseRetry is how long a light machine waits after a failed renewal.
	leaseRetry = time.Second
	// holdPoll is how often a light machine looks whether it is still held.
	holdPoll = 100 * time.Millisecond
)

// light is a machine without goroutines. Its state belongs to the worker that has taken it out of the queue, which gives a machine to one
// worker at a time.
type light struct {
	*kubelet
	// step does what is due and returns when the next step is, zero for never. It is the one that knows the machine's context.
	step func(now time.Time) time.Time
	// changed is true when a pod of the node has changed since the last step.
	changed atomic.Bool
	// registered is true once the Node is there, and backoff the delay after the last failure before that.
	registered bool
	backoff    time.Duration
	podsDue    time.Time
	leaseDue   time.Time
	// lease is the Lease as the API server last returned it; nil before the first renewal and after a failed one.
	lease *coordinationv1.Lease
}

// addLight queues a machine for its start.
func (s *Sim) addLight(ctx context.Context, k *kubelet, started time.Time) {
	l := &light{kubelet: k}
	k.wake = func() {
		l.changed.Store(true)
		s.queue.Add(l)
	}
	l.step = func(now time.Time) time.Time {
		switch {
		case ctx.Err() != nil:
			return time.Time{}
		case now.Before(started):
			return started // A pod that was bound early does not start the machine.
		case !l.registered && s.config.Holds.Held(k.pool()):
			return now.Add(holdPoll)
		default:
			return l.next(ctx, now)
		}
	}
	s.add(k)
	context.AfterFunc(ctx, func() { s.remove(k) })
	s.queue.AddAfter(l, time.Until(started))
}

// work does the steps of light machines until ctx ends.
func (s *Sim) work(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range s.config.Writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, ended := s.queue.Get()
				if ended {
					return
				}
				if next := l.step(time.Now()); !next.IsZero() {
					s.queue.AddAfter(l, time.Until(next))
				}
				s.queue.Done(l)
			}
		})
	}
	<-ctx.Done()
	s.queue.ShutDown()
}

// next does what is due at now: the Node, the Lease, pods, statuses. It returns when the next of them is due.
func (l *light) next(ctx context.Context, now time.Time) time.Time {
	if !l.registered {
		if err := l.tryRegister(ctx); err != nil {
			l.backoff = min(max(registerFirst, 2*l.backoff), registerLongest)
			l.log.V(2).Info("Could not register the node, will try again", "err", err)
			return now.Add(l.backoff)
		}
		l.registered = true
		l.planner.networkReady = now.Add(l.network)
		l.nodeDue, l.leaseDue = now, now
		l.changed.Store(true)
	}
	if due(l.leaseDue, now) {
		l.leaseDue = l.renew(ctx, now)
	}
	if l.changed.Swap(false) || due(l.podsDue, now) {
		l.podsDue = l.syncPods(ctx, now)
	}
	if due(l.nodeDue, now) {
		l.nodeDue = l.syncNode(ctx, now)
	}
	return earliest(l.podsDue, l.nodeDue, l.leaseDue, l.writer.drain(ctx))
}

// renew writes the Lease, and returns when to write it again.
func (l *light) renew(ctx context.Context, now time.Time) time.Time {
	if err := l.tryRenew(ctx, now); err != nil {
		l.log.V(2).Info("Could not renew the Lease, will try again", "err", err)
		l.lease = nil
		return now.Add(leaseRetry)
	}
	return now.Add(lightLeaseInterval)
}

func (l *light) tryRenew(ctx context.Context, now time.Time) error {
	leases := l.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, create := l.lease.DeepCopy(), false
	if lease == nil {
		var err error
		if lease, err = leases.Get(ctx, l.name(), metav1.GetOptions{}); apierrors.IsNotFound(err) {
			create = true
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.name(), Namespace: corev1.NamespaceNodeLease}}
		} else if err != nil {
			return err
		}
	}
	if err := l.own(ctx, lease); err != nil {
		return err
	}
	lease.Spec.HolderIdentity = new(l.name())
	lease.Spec.LeaseDurationSeconds = new(int32(leaseDuration / time.Second))
	lease.Spec.RenewTime = new(metav1.NewMicroTime(now))
	var err error
	if create {
		l.lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		l.lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// due reports whether a moment, which is zero for never, has come.
func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// earliest returns the first of the moments that are not zero.
func earliest(moments ...time.Time) time.Time {
	var out time.Time
	for _, at := range moments {
		if !at.IsZero() && (out.IsZero() || at.Before(out)) {
			out = at
		}
	}
	return out
}

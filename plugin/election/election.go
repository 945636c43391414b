// Package election has a scheduler without a launcher leave its Lease to a replica that has one. A launcher that does not start, after a bad
// setting or while it still loads, is in the Pod of one replica; without this the scheduler beside it could lead, and no node would be launched.
//
// A replica whose launcher is connected takes a free Lease at once, and so does one that has no other replica beside it. Another one waits until its
// launcher is connected, at most Patience: without any launcher the scheduler is kube-scheduler. A replica that holds the Lease keeps it, and so does the next process of its identity, until it
// has led for a minute without its launcher and another replica is Ready; half an hour if it took the Lease without its launcher. Two replicas
// without launchers are not Ready. Should they be, they pass the Lease to each other twice an hour at most.
//
// The package starts no goroutine.
package election

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Patience is how long a Lease that is free is left to replicas whose launcher is connected. It is longer than a launcher takes to start, and
// several times as long as another replica takes to look at the Lease again, which is up to 5 s.
const Patience = 30 * time.Second

// Lock is a lock of leader election. As with the locks of client-go, one elector uses it.
type Lock struct {
	resourcelock.Interface
	connected func(context.Context) bool
	alone     func() bool
	seen      sight
	// resigned is set once the launcher does not act any more.
	resigned atomic.Bool
	// leads is how this replica came to lead; nil while the Lease does not name it.
	leads atomic.Pointer[term]
}

// term is the time for which a replica leads.
type term struct {
	// free is since when the Lease was free that this replica took without its launcher. Zero where it had one, was alone, or held the Lease already.
	free time.Time
}

// atLeast returns how long this replica leads without its launcher at least.
func (t *term) atLeast() time.Duration {
	if t.free.IsZero() {
		return giveUpAfter
	}
	return keepFor
}

// New returns a lock around that of the election. connected waits until the launcher is connected, and returns false if the context ends before.
// With a context that has ended it reports whether the launcher is connected now. alone reports that no other replica is known that could take the Lease.
// Both are called concurrently.
func New(lock resourcelock.Interface, connected func(context.Context) bool, alone func() bool) (*Lock, error) {
	if lock == nil || connected == nil || alone == nil {
		return nil, errors.New("election: a lock, what waits for the launcher, and what knows of other replicas are required")
	}
	return &Lock{Interface: lock, connected: connected, alone: alone}, nil
}

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err == nil:
		l.seen.look(record.HolderIdentity, raw)
		l.lead(record.HolderIdentity, time.Time{})
	case apierrors.IsNotFound(err):
		l.seen.look("", nil)
		l.lead("", time.Time{})
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

// Resigned lets the Lease be released: the launcher beside this scheduler does not act any more. client-go's elector also releases a Lease that it could not
// renew. The launcher reads of that seconds later, and that of the next leader would act beside it. Such a Lease ends by itself.
func (l *Lock) Resigned() { l.resigned.Store(true) }

// write writes the record when this replica may. An elector writes its own identity only where the Lease is free or its own, and none to release
// it. What another replica writes during a wait makes the API server refuse the write, as the Lease then has another version.
func (l *Lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, to func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	var free time.Time
	if record.HolderIdentity == "" && !l.resigned.Load() {
		return errors.New("not released, as the launcher has not resigned: the Lease ends by itself")
	}
	if record.HolderIdentity == l.Identity() {
		var err error
		if free, err = l.await(ctx); err != nil {
			return err
		}
	}
	if err := to(ctx, record); err != nil {
		return err
	}
	l.seen.holder = record.HolderIdentity
	l.lead(record.HolderIdentity, free)
	return nil
}

// lead records that the Lease names the holder. free is that of the term, should it begin now.
func (l *Lock) lead(holder string, free time.Time) {
	if holder != l.Identity() {
		l.leads.Store(nil)
	} else if l.leads.Load() == nil {
		l.leads.Store(&term{free: free})
	}
}

// await waits until this replica may take the Lease. It returns since when the Lease was free if that is without the launcher, and an error if
// the context ends before.
func (l *Lock) await(ctx context.Context) (free time.Time, err error) {
	if l.seen.holder == l.Identity() || l.alone() {
		return time.Time{}, nil
	}
	left := l.seen.left(time.Now())
	bounded, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if l.connected(bounded) {
		return time.Time{}, nil
	}
	if ctx.Err() == nil {
		klog.FromContext(ctx).Info("The launcher is not connected, and no other replica was seen to lead: leading without it", "lock", l.Describe())
	}
	return l.seen.since, ctx.Err()
}

// sight is what an elector has seen of its Lease.
type sight struct {
	// holder is the identity that the Lease names; empty for none.
	holder string
	// record is the Lease as it was read last; nil where there is none.
	record []byte
	// since is when this process could have taken the Lease for the first time, as it is. Zero for never.
	since time.Time
}

// look records the Lease as it was read. A Lease that has changed was not free: another replica wrote it.
func (s *sight) look(holder string, record []byte) {
	if !bytes.Equal(s.record, record) {
		s.since = time.Time{}
	}
	s.holder, s.record = holder, record
}

// left returns for how long a Lease that this process could take now is left to others while the launcher is not connected.
func (s *sight) left(now time.Time) time.Duration {
	if s.since.IsZero() {
		s.since = now
	}
	return max(0, s.since.Add(Patience).Sub(now))
}

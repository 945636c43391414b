package election_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/slipway-k8s/slipway/plugin/election"
)

const (
	lease, renewDeadline, retry = 15 * time.Second, 10 * time.Second, 2 * time.Second
	// aLook is the longest time between two looks of an elector at a Lease that it does not hold: client-go adds up to 120% to the retry period.
	aLook = retry * 22 / 10
	never = time.Duration(-1)
	// anyOf is one of several replicas that are alike.
	anyOf = "any"
)

// replica is a scheduler with the real leader election of client-go.
type replica struct {
	name string
	// starts is when it starts, and connects when its launcher is connected; never for not at all. stops is when it ends, as on SIGTERM, zero
	// for not before the end.
	starts, connects, stops time.Duration
	// dies means that it does not release the Lease, alone that it knows of no other replica.
	dies, alone bool
}

// run takes part in the election until ctx ends, and calls led when it leads.
func (r replica) run(ctx context.Context, t *testing.T, client *fake.Clientset, led func(name string)) {
	t.Helper()
	begin := time.Now()
	time.Sleep(r.starts)
	if r.stops != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, begin.Add(r.stops))
		defer cancel()
	}
	lock, err := election.New(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "slipway-scheduler"}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: r.name},
	}, func(ctx context.Context) bool {
		var connected <-chan time.Time
		if r.connects != never {
			connected = time.After(time.Until(begin.Add(r.connects)))
		}
		select {
		case <-connected:
			return true
		case <-ctx.Done():
			return false
		}
	}, func() bool { return r.alone })
	if err != nil {
		t.Error(err)
		return
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: lease, RenewDeadline: renewDeadline, RetryPeriod: retry, ReleaseOnCancel: !r.dies,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { led(r.name) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Error(err)
		return
	}
	lock.Resigned() // Its launcher acts no more when the elector ends.
	elector.Run(ctx)
}

// A free Lease is for a replica whose launcher is connected. Without any, one without a launcher leads after a while, and keeps the Lease.
func TestReplicasWithALauncherLead(t *testing.T) {
	healthy := func(name string, starts time.Duration) replica {
		return replica{name: name, starts: starts, connects: starts}
	}
	broken := func(name string, starts time.Duration) replica {
		return replica{name: name, starts: starts, connects: never}
	}
	for name, c := range map[string]struct {
		replicas []replica
		// held is the identity that holds the Lease when the first replica starts; empty for no Lease.
		held string
		// want is what leads, in order, each at this time or up to two looks later.
		want []string
		at   []time.Duration
	}{
		"a launcher":                      {replicas: []replica{healthy("a", 0)}, want: []string{"a"}, at: []time.Duration{0}},
		"a launcher that still loads":     {replicas: []replica{{name: "a", connects: 7 * time.Second}}, want: []string{"a"}, at: []time.Duration{7 * time.Second}},
		"no launcher, alone":              {replicas: []replica{{name: "a", connects: never, alone: true}}, want: []string{"a"}, at: []time.Duration{0}},
		"no launcher":                     {replicas: []replica{broken("a", 0)}, want: []string{"a"}, at: []time.Duration{election.Patience}},
		"no launcher, its own Lease":      {replicas: []replica{broken("a", 0)}, held: "a", want: []string{"a"}, at: []time.Duration{0}},
		"no launcher, a dead one's Lease": {replicas: []replica{broken("a", 0)}, held: "dead", want: []string{"a"}, at: []time.Duration{lease + election.Patience}},
		"the one with a launcher is late": {replicas: []replica{broken("a", 0), healthy("b", 20*time.Second)}, want: []string{"b"}, at: []time.Duration{20 * time.Second}},
		"the leader stops": {
			replicas: []replica{{name: "a", stops: time.Minute}, broken("b", time.Second), healthy("c", 2*time.Second)},
			want:     []string{"a", "c"}, at: []time.Duration{0, time.Minute},
		},
		"the leader dies": {
			replicas: []replica{{name: "a", stops: time.Minute, dies: true}, broken("b", time.Second), healthy("c", 2*time.Second)},
			want:     []string{"a", "c"}, at: []time.Duration{0, time.Minute + lease - retry},
		},
		"the leader dies, no launcher elsewhere": {
			replicas: []replica{{name: "a", stops: time.Minute, dies: true}, broken("b", time.Second)},
			want:     []string{"a", "b"}, at: []time.Duration{0, time.Minute + lease - retry + election.Patience},
		},
		"the leader stops, no launcher elsewhere": {
			replicas: []replica{{name: "a", stops: time.Minute}, broken("b", time.Second), broken("c", 2*time.Second)},
			want:     []string{"a", anyOf}, at: []time.Duration{0, time.Minute + election.Patience},
		},
		"no launcher anywhere": {replicas: []replica{broken("a", 0), broken("b", 5*time.Second)}, want: []string{"a"}, at: []time.Duration{election.Patience}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runElection(t, c.replicas, c.held, c.want, c.at) })
		})
	}
}

func runElection(t *testing.T, replicas []replica, held string, want []string, at []time.Duration) {
	t.Helper()
	client, start := fake.NewClientset(), time.Now()
	client.PrependReactor("update", "leases", refuseOld(client.Tracker()))
	if held != "" {
		seconds, now := int32(lease/time.Second), metav1.NewMicroTime(start)
		if _, err := client.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "slipway-scheduler"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &held, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var led []string
	var when []time.Duration
	var all sync.WaitGroup
	for _, r := range replicas {
		all.Go(func() {
			r.run(ctx, t, client, func(name string) {
				mu.Lock()
				defer mu.Unlock()
				led, when = append(led, name), append(when, time.Since(start))
			})
		})
	}
	time.Sleep(3 * time.Minute)
	cancel()
	all.Wait()
	synctest.Wait()
	if len(led) != len(want) {
		t.Fatalf("%v led at %v, want %v at %v", led, when, want, at)
	}
	for i := range want {
		if late := when[i] - at[i]; want[i] != anyOf && led[i] != want[i] || late < 0 || late > 2*aLook+retry {
			t.Errorf("%s led at %s, want %s at %s or two looks later", led[i], when[i], want[i], at[i])
		}
	}
}

// refuseOld does what the API server does with an update of an old version, and the tracker does not: it is a conflict.
func refuseOld(objects clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		update, ok := action.(clienttesting.UpdateAction)
		if !ok {
			return false, nil, nil
		}
		lease, ok := update.GetObject().(*coordinationv1.Lease)
		if !ok {
			return false, nil, nil
		}
		current, err := objects.Get(action.GetResource(), lease.Namespace, lease.Name)
		if err != nil {
			return true, nil, err
		}
		version := current.(*coordinationv1.Lease).ResourceVersion
		if lease.ResourceVersion != version {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), lease.Name, errors.New("the object has been modified"))
		}
		lease.ResourceVersion = version + "1"
		return false, nil, nil
	}
}

// client-go's elector also releases a Lease that it could not renew, such as where the API server's answers come too late. The launcher still acts then: the Lease
// stays, and ends by itself.
func TestLeaseThatWasNotRenewedIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, failing := fake.NewClientset(), atomic.Bool{}
		client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			written := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
			return failing.Load() && *written.Spec.HolderIdentity != "", nil, errors.New("too late")
		})
		lock, err := election.New(&resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "n", Name: "l"}, Client: client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
		}, func(context.Context) bool { return true }, func() bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: lease, RenewDeadline: renewDeadline, RetryPeriod: retry, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { failing.Store(true) }, OnStoppedLeading: func() {}},
		})
		if err != nil {
			t.Fatal(err)
		}
		elector.Run(t.Context())
		got, err := client.CoordinationV1().Leases("n").Get(t.Context(), "l", metav1.GetOptions{})
		if err != nil || *got.Spec.HolderIdentity != "me" {
			t.Errorf("the Lease names %q, want me; error %v", *got.Spec.HolderIdentity, err)
		}
	})
}

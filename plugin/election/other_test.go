package election_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/slipway-k8s/slipway/plugin/election"
)

// A Lease is given up when this replica has led for a minute without its launcher and another one is ready, and only then.
func TestAwaitOther(t *testing.T) {
	const long = time.Hour
	for name, c := range map[string]struct {
		// standby means that another replica holds the Lease.
		standby bool
		// lost and back are when the launcher is lost and is connected again, ready is when another replica is.
		lost, back, ready time.Duration
		// want is when the Lease is given up, up to two looks later; zero for never.
		want time.Duration
	}{
		"another is ready":            {lost: 10 * time.Minute, back: long, want: 11 * time.Minute},
		"another is ready later":      {back: long, ready: 20 * time.Minute, want: 20 * time.Minute},
		"no other":                    {back: long, ready: long},
		"the launcher is soon back":   {lost: 10 * time.Minute, back: 10*time.Minute + 50*time.Second},
		"the launcher works":          {lost: long, back: long},
		"a standby without launchers": {standby: true, back: long},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				lock, err := election.New(held{by: "me", standby: c.standby}, func(context.Context) bool {
					return time.Since(start) < c.lost || time.Since(start) >= c.back
				}, func() bool { return false })
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := lock.Get(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
				defer cancel()
				given := lock.AwaitOther(ctx, func(since time.Time) bool { return since.IsZero() && time.Since(start) >= c.ready })
				if late := time.Since(start) - c.want; given != (c.want != 0) || given && (late < 0 || late > 10*time.Second) {
					t.Errorf("given up: %t, after %s, want %s", given, time.Since(start), c.want)
				}
			})
		})
	}
}

// A Lease that was free and that this replica took without its launcher is given up for a replica that became ready since, and not for one that
// was ready then: that would have led.
func TestAwaitOtherAfterAFreeLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		lock, err := election.New(held{by: "me"}, func(ctx context.Context) bool {
			<-ctx.Done()
			return false
		}, func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != time.Minute+election.Patience {
			t.Errorf("the Lease was taken after %s", waited)
		}
		took := time.Now()
		if !lock.AwaitOther(t.Context(), func(since time.Time) bool {
			if since.Sub(start) != time.Minute {
				t.Errorf("the Lease is taken to be free since %s", since.Sub(start))
			}
			return true
		}) {
			t.Error("the Lease is kept")
		}
		if led := time.Since(took); led < 30*time.Minute || led > 31*time.Minute {
			t.Errorf("the Lease is given up after %s", led)
		}
	})
}

// held is a lock of an identity whose Lease names it, or another one.
type held struct {
	resourcelock.Interface
	by      string
	standby bool
}

func (h held) Identity() string { return h.by }

func (h held) Describe() string { return h.by }

func (h held) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

func (h held) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if h.standby {
		return &resourcelock.LeaderElectionRecord{HolderIdentity: "other"}, []byte("other"), nil
	}
	return &resourcelock.LeaderElectionRecord{HolderIdentity: h.by}, []byte(h.by), nil
}

// Another replica is a Pod of the same installation that is Ready and stays.
func TestOthers(t *testing.T) {
	now := time.Now()
	pod := func(name, instance string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "slipway", "app.kubernetes.io/instance": instance}},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now)}}},
		}
	}
	other := pod("other", "a", corev1.ConditionTrue)
	own, deleted, bare := pod("own", "a", corev1.ConditionTrue), pod("deleted", "a", corev1.ConditionTrue), pod("bare", "", corev1.ConditionTrue)
	elsewhere := pod("other", "a", corev1.ConditionTrue)
	deleted.DeletionTimestamp, bare.Labels, elsewhere.Namespace = &metav1.Time{}, nil, "m"
	name := types.NamespacedName{Namespace: "n", Name: "own"}
	for what, c := range map[string]struct {
		other *corev1.Pod
		since time.Time
		want  bool
	}{
		"ready":                {other: other, want: true},
		"ready since":          {other: other, since: now.Add(-time.Second), want: true},
		"ready before":         {other: other, since: now.Add(time.Second)},
		"not ready":            {other: pod("other", "a", corev1.ConditionFalse)},
		"deleted":              {other: deleted},
		"another installation": {other: pod("other", "b", corev1.ConditionTrue)},
		"another program":      {other: bare},
		"another namespace":    {other: elsewhere},
	} {
		if got := election.Ready(election.Others([]*corev1.Pod{own, c.other}, name), c.since); got != c.want {
			t.Errorf("%s: %t, want %t", what, got, c.want)
		}
	}
	if got := election.Others([]*corev1.Pod{other}, name); got != nil {
		t.Errorf("a replica that does not find its own Pod has others: %v", got)
	}
}

package plugin

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// nightly are the sleepers of a cluster whose namespace shop sleeps from 20:00 to 06:00.
func nightly(t *testing.T) *sleepers {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{
		window.SleepAnnotation: `- {schedule: "0 20 * * *", duration: 10h}`,
	}}}
	if err := store.Add(namespace); err != nil {
		t.Fatal(err)
	}
	return newSleepers(corelisters.NewNamespaceLister(store))
}

// A namespace wakes as long before the end of its sleep as nodes need to boot. Its pods are held until then, and again in the next sleep.
func TestWakesBeforeTheEnd(t *testing.T) {
	s := nightly(t)
	s.learned(45 * time.Second)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "web", UID: "other"}}
	for _, c := range []struct {
		at          string
		held, woken bool
	}{
		{"2026-11-26T19:59:59Z", false, false},
		{"2026-11-26T20:00:00Z", true, false},
		{"2026-11-27T05:58:59Z", true, false},
		{"2026-11-27T05:59:00Z", false, true},
		{"2026-11-27T05:59:30Z", false, false},
		{"2026-11-27T06:00:00Z", false, false},
		{"2026-11-27T20:00:01Z", true, false},
	} {
		now, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if woken := s.woken(now); (len(woken) > 0) != c.woken {
			t.Errorf("%s: %v are awake", c.at, woken)
		}
		if _, held := s.holds(pod, now); held != c.held {
			t.Errorf("%s: held %t", c.at, held)
		}
		if why := s.replacement(pod, now); (why != "") != c.held {
			t.Errorf("%s: its replacement: %q", c.at, why)
		}
		if why := s.refusal(other, now); why != "" {
			t.Errorf("%s: a pod elsewhere: %s", c.at, why)
		}
	}
}

// What is learned after pods were held holds for their sleep: a scheduler that restarts in a sleep holds pods before it has seen a node. A shorter time does not
// put to sleep again what has woken.
func TestLearnsWhilePodsAreHeld(t *testing.T) {
	s := nightly(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	end := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	if _, held := s.holds(pod, end.Add(-time.Hour)); !held {
		t.Fatal("the pod is not held")
	}
	const boot = 225 * time.Second
	s.learned(boot)
	if woken := s.woken(end.Add(-boot - besidesBoot - time.Second)); len(woken) > 0 {
		t.Errorf("%v woke early", woken)
	}
	if woken := s.woken(end.Add(-boot - besidesBoot)); len(woken) != 1 {
		t.Errorf("%v are awake four minutes before the end", woken)
	}
	s.learned(45 * time.Second)
	if _, held := s.holds(pod, end.Add(-boot)); held {
		t.Error("what has woken sleeps again")
	}
}

// What is taken is the caller's: a pod that is held afterwards is not written to it, while the caller may range over it.
func TestTakenPodsAreTheCallers(t *testing.T) {
	s := nightly(t)
	night := time.Date(2026, 11, 27, 1, 0, 0, 0, time.UTC)
	for i, name := range []types.UID{"web", "api"} {
		before := s.take()
		if len(before) > 0 {
			t.Errorf("%d pods are taken before %s is held", len(before), name)
		}
		held := make(chan struct{})
		go func() {
			defer close(held)
			s.holds(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(name), UID: name}}, night)
		}()
		for uid := range before {
			t.Errorf("%s was held later", uid)
		}
		<-held
		if len(before) > 0 {
			t.Errorf("%s was added to what had been taken", name)
		}
		if taken := s.take(); len(taken) != 1 || taken[name].ref.Name != string(name) {
			t.Errorf("after %d pods %v are taken, want %s", i+1, taken, name)
		}
	}
}

// The lead is that of nine of ten new nodes of the last day. One that was not Ready for long, that is another's or was woken for a standby buffer does not count.
func TestBootTime(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	node := func(ago, took time.Duration, pool string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(ago), CreationTimestamp: metav1.NewTime(now.Add(-ago)), Labels: map[string]string{nodePoolLabel: pool}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(took - ago))}}
		return n
	}
	if got := bootTime([]*corev1.Node{node(time.Hour, time.Minute, "")}, now); got != 0 {
		t.Errorf("without nodes of slipway: %s", got)
	}
	nodes := []*corev1.Node{node(time.Hour, 30*time.Minute, "a"), node(30*time.Hour, 5*time.Minute, "a"), node(time.Hour, 5*time.Minute, "")}
	for range 200 {
		woken := node(time.Hour, 20*time.Second, "a")
		woken.Annotations = map[string]string{catalog.WokenAnnotation: "true"}
		nodes = append(nodes, woken)
	}
	for i := range 20 {
		nodes = append(nodes, node(time.Hour, time.Duration(30+i)*time.Second, "a"))
	}
	if got := bootTime(nodes, now); got != 48*time.Second {
		t.Errorf("nine of ten within %s, want 48s", got)
	}
}

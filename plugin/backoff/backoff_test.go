package backoff_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/backoff"
)

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func web(uid types.UID) backoff.Pod { return backoff.Pod{UID: uid, Owner: "web"} }

// on returns a pod on a node; change adapts it.
func on(uid types.UID, node string, phase corev1.PodPhase, change func(*corev1.Pod)) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	out.Spec.NodeName, out.Status.Phase = node, phase
	if change != nil {
		change(out)
	}
	return out
}

func refused(p *corev1.Pod) {
	p.Status.Reason, p.Status.Message = "OutOfcpu", "Node didn't have enough resource: cpu"
}

func preempted(p *corev1.Pod) {
	p.DeletionTimestamp = new(metav1.Now())
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: "for agent"}}
}

// TestOneLaunch has a launch for pod a of two pods, and checks how long the owner's next pod, b, has to wait.
func TestOneLaunch(t *testing.T) {
	minute := start().Add(time.Minute)
	for _, c := range []struct {
		name   string
		then   func(*backoff.Launches)
		asks   types.UID
		delay  time.Duration
		reason string
	}{
		{"in flight, another pod asks", func(*backoff.Launches) {}, "b", 0, ""},
		{"initialized, the pod comes back", func(l *backoff.Launches) { l.Initialized("c-1", "n-1") }, "a", 10 * time.Second, "too small"},
		{"initialized, another pod asks", func(l *backoff.Launches) { l.Initialized("c-1", "n-1") }, "b", 0, ""},
		{"in flight, the pod comes back: once for nothing", func(*backoff.Launches) {}, "a", 0, ""},
		{"deleted, the pod comes back: once for nothing", func(l *backoff.Launches) { l.ClaimDeleted("c-1") }, "a", 0, ""},
		{"failed, which delays its NodePool", func(l *backoff.Launches) { l.Forget("c-1") }, "a", 0, ""},
		{"refused by the kubelet", func(l *backoff.Launches) {
			l.Initialized("c-1", "n-1")
			l.Observe(on("a", "n-1", corev1.PodFailed, refused), start())
			l.Deleted("a", start())
		}, "b", 10 * time.Second, "OutOfcpu: Node didn't have enough resource: cpu"},
		{"preempted a moment after it has started", func(l *backoff.Launches) {
			l.Initialized("c-1", "n-1")
			l.Observe(on("a", "n-1", corev1.PodRunning, nil), start())
			l.Observe(on("a", "n-1", corev1.PodRunning, preempted), start().Add(time.Second))
			l.Deleted("a", start().Add(time.Second))
		}, "b", 10 * time.Second, "PreemptionByScheduler: for agent"},
		{"preempted after it has run for long", func(l *backoff.Launches) {
			l.Initialized("c-1", "n-1")
			l.Observe(on("a", "n-1", corev1.PodRunning, nil), start())
			l.Observe(on("a", "n-1", corev1.PodRunning, preempted), minute)
			l.Deleted("a", minute)
		}, "b", 0, ""},
		{"bound, and not started yet", func(l *backoff.Launches) {
			l.Initialized("c-1", "n-1")
			l.Observe(on("a", "n-1", corev1.PodPending, nil), start())
		}, "b", 0, ""},
		{"ran to its end at once", func(l *backoff.Launches) {
			l.Initialized("c-1", "n-1")
			l.Observe(on("a", "n-1", corev1.PodSucceeded, nil), start())
		}, "b", 0, ""},
		{"failed by itself", func(l *backoff.Launches) {
			l.Initialized("c-1", "n-1")
			l.Observe(on("a", "n-1", corev1.PodFailed, nil), start())
		}, "b", 0, ""},
		{"placed elsewhere", func(l *backoff.Launches) {
			l.Initialized("c-1", "n-1")
			l.Observe(on("a", "other", corev1.PodRunning, nil), start())
		}, "a", 0, ""},
		{"deleted while it waited", func(l *backoff.Launches) {
			l.Initialized("c-1", "n-1")
			l.Deleted("a", start())
		}, "b", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := backoff.New()
			l.Launched("c-1", []backoff.Pod{web("a")}, start())
			c.then(l)
			delay, lasts, _ := l.Check(web(c.asks), "too small", minute)
			if lasts != (c.delay > 0) || lasts && !delay.Until.Equal(minute.Add(c.delay)) {
				t.Fatalf("%+v, lasts %t, want %s", delay, lasts, c.delay)
			}
			if c.reason != "" && (delay.Reason != c.reason || delay.NodeClaim != "c-1") {
				t.Errorf("%+v, want reason %q", delay, c.reason)
			}
		})
	}
}

// TestDelayDoubles checks that the delay doubles up to ten minutes, so that a fault of a day costs few launches.
func TestDelayDoubles(t *testing.T) {
	l := backoff.New()
	var delays []string
	launches := 0
	for now := start(); now.Before(start().Add(24 * time.Hour)); {
		launches++
		claim := fmt.Sprintf("c-%d", launches)
		l.Launched(claim, []backoff.Pod{web("a")}, now)
		now = now.Add(4 * time.Second)
		l.Initialized(claim, "n-"+claim)
		delay, lasts, found := l.Check(web("a"), "", now)
		if !lasts || len(found) != 1 || found[0] != claim || delay.Launches != launches {
			t.Fatalf("launch %d: %+v, lasts %t, found %v", launches, delay, lasts, found)
		}
		delays = append(delays, delay.Until.Sub(now).String())
		now = delay.Until
		l.Tidy(now)
	}
	if got, want := strings.Join(delays[:8], " "), "10s 20s 40s 1m20s 2m40s 5m20s 10m0s 10m0s"; got != want {
		t.Errorf("delays %s, want %s", got, want)
	}
	if launches > 160 {
		t.Errorf("%d launches in a day", launches)
	}
}

// TestDeletedAgainAndAgain checks that nodes which are deleted before they are ready are launched again at once, once.
func TestDeletedAgainAndAgain(t *testing.T) {
	l, now := backoff.New(), start()
	var delays []string
	for i := range 4 {
		claim := fmt.Sprintf("c-%d", i)
		l.Launched(claim, []backoff.Pod{web("a")}, now)
		now = now.Add(time.Second)
		l.ClaimDeleted(claim)
		delay, _, _ := l.Check(web("a"), "", now)
		delays = append(delays, delay.Until.Sub(now).String())
		now = delay.Until
	}
	if got, want := strings.Join(delays, " "), "0s 10s 20s 40s"; got != want {
		t.Errorf("delays %s, want %s", got, want)
	}
}

// TestRoundsAndSuccess checks that ten nodes of one round count as one launch, and that a pod that runs for a minute resets
// the delay.
func TestRoundsAndSuccess(t *testing.T) {
	l := backoff.New()
	for i := range 10 {
		claim := fmt.Sprintf("c-%d", i)
		l.Launched(claim, []backoff.Pod{web(types.UID(claim))}, start())
		l.Initialized(claim, claim)
	}
	now := start().Add(time.Second)
	for i := range 10 {
		if delay, lasts, _ := l.Check(web(types.UID(fmt.Sprintf("c-%d", i))), "", now); !lasts || delay.Launches != 1 {
			t.Fatalf("pod %d: %+v", i, delay)
		}
	}
	if n := l.Tidy(now); n != 1 {
		t.Errorf("%d owners wait, want 1", n)
	}
	now = now.Add(10 * time.Second)
	l.Launched("good", []backoff.Pod{web("g")}, now)
	l.Initialized("good", "good")
	l.Observe(on("g", "good", corev1.PodRunning, nil), now)
	now = now.Add(time.Minute)
	l.Tidy(now)
	l.Launched("bad", []backoff.Pod{web("b")}, now)
	l.Initialized("bad", "bad")
	if delay, _, _ := l.Check(web("b"), "", now.Add(time.Second)); delay.Launches != 1 {
		t.Errorf("after a success: %+v", delay)
	}
}

// TestOthersAndMemory checks that another owner's pods do not wait, and that ended delays are forgotten.
func TestOthersAndMemory(t *testing.T) {
	l := backoff.New()
	l.Launched("c-1", []backoff.Pod{web("a"), {UID: "x", Owner: "x"}}, start())
	l.Initialized("c-1", "n-1")
	if got := l.NodeOf("a"); got != "n-1" {
		t.Errorf("node %q of the pod", got)
	}
	l.Observe(on("x", "n-1", corev1.PodRunning, nil), start())
	if _, lasts, _ := l.Check(web("a"), "", start()); !lasts {
		t.Error("the pod that came back does not wait: another owner's runs there")
	}
	if _, lasts, _ := l.Check(backoff.Pod{UID: "y", Owner: "x"}, "", start()); lasts {
		t.Error("a pod waits for what happened to another owner's")
	}
	l.Tidy(start().Add(time.Hour))
	if delay, _, _ := l.Check(web("a"), "", start().Add(time.Hour)); delay.Launches != 0 {
		t.Errorf("an hour later: %+v", delay)
	}
}

// TestEndIsLookedUp checks that an owner's pods wait while it is being looked up how another one ended, and no longer.
func TestEndIsLookedUp(t *testing.T) {
	for name, known := range map[string]func(*backoff.Launches){
		"it was deleted": func(l *backoff.Launches) { l.Deleted("a", start()) },
		"it has failed":  func(l *backoff.Launches) { l.Observe(on("a", "n-1", corev1.PodFailed, refused), start()) },
		"it was deleted, and its launch was forgotten": func(l *backoff.Launches) { l.Forget("c-1"); l.Deleted("a", start()) },
		"it has failed, and its launch was forgotten": func(l *backoff.Launches) {
			l.Forget("c-1")
			l.Observe(on("a", "n-1", corev1.PodFailed, refused), start())
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := backoff.New()
			l.Launched("c-1", []backoff.Pod{web("a")}, start())
			if l.Ends("x") || l.Awaits("web") {
				t.Error("the end of a pod without a launch is awaited")
			}
			if !l.Ends("a") || !l.Awaits("web") || l.Awaits("x") {
				t.Error("not the owner's pods wait")
			}
			if known(l); l.Awaits("web") {
				t.Error("the owner's pods still wait")
			}
		})
	}
}

// TestLostAndNotReplaced checks that a launch whose pod was lost is forgotten where the owner asks for no node any more.
func TestLostAndNotReplaced(t *testing.T) {
	l := backoff.New()
	l.Launched("c-1", []backoff.Pod{web("a")}, start())
	l.Initialized("c-1", "n-1")
	l.Observe(on("a", "n-1", corev1.PodFailed, refused), start())
	l.Deleted("a", start())
	if l.Tidy(start().Add(19 * time.Minute)); l.NodeOf("a") != "n-1" {
		t.Error("forgotten while a replacement may still come")
	}
	if l.Tidy(start().Add(20 * time.Minute)); l.NodeOf("a") != "" {
		t.Error("a launch is kept whose owner asks for no node any more")
	}
}

package plugin

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/ondemand"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// Nodes are filtered only while something may be reserved on one: for a young node's DaemonSet pods, for promised pods and for a moment after they are bound, for
// the pods of a buffer, or by a minimum on-demand share. A DaemonSet's own pods are never kept off.
func TestNothingReservedIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := func(ready corev1.ConditionStatus, since time.Duration) *corev1.Node {
			return &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{UID: "one", Labels: map[string]string{nodePoolLabel: "default"}, CreationTimestamp: metav1.NewTime(time.Now().Add(-since))},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(time.Now().Add(-since)),
				}}},
			}
		}
		ready := func(since time.Duration) *corev1.Node { return node(corev1.ConditionTrue, since) }
		for name, test := range map[string]struct {
			prepare func(c *crowd)
			after   time.Duration
			skipped bool
		}{
			"nothing":               {func(*crowd) {}, 0, true},
			"a young node":          {func(c *crowd) { c.reserve.objects.young.see(ready(time.Minute)) }, 0, false},
			"a node that was young": {func(c *crowd) { c.reserve.objects.young.see(ready(time.Minute)) }, time.Minute, true},
			"a node that boots":     {func(c *crowd) { c.reserve.objects.young.see(node(corev1.ConditionFalse, time.Minute)) }, 18 * time.Minute, false},
			"a node that has booted": {func(c *crowd) {
				c.reserve.objects.young.see(node(corev1.ConditionFalse, time.Minute))
				c.reserve.objects.young.see(ready(0))
			}, 2 * time.Minute, true},
			"a young node that is gone": {func(c *crowd) {
				c.reserve.objects.young.see(ready(0))
				c.reserve.objects.young.forget(cache.DeletedFinalStateUnknown{Obj: ready(0)})
			}, 0, true},
			"a young node beside an old one": {func(c *crowd) {
				old := ready(time.Hour)
				old.UID = "two"
				c.reserve.objects.young.see(ready(time.Minute))
				c.reserve.objects.young.see(old)
			}, 0, false},
			"a node of no NodePool": {func(c *crowd) {
				other := ready(0)
				other.Labels = nil
				c.reserve.objects.young.see(other)
			}, 0, true},
			"a promise": {func(c *crowd) { c.reserve.promises.Hold(promised()) }, time.Hour, false},
			"a promise that was kept": {func(c *crowd) {
				c.reserve.promises.Hold(promised())
				c.reserve.promises.Bound("uid", time.Now())
			}, 9 * time.Second, false},
			"one that was kept long ago": {func(c *crowd) {
				c.reserve.promises.Hold(promised())
				c.reserve.promises.Bound("uid", time.Now())
			}, 10 * time.Second, true},
			"a buffer": {func(c *crowd) { c.fill(2) }, 0, false},
			"a share":  {func(c *crowd) { c.reserve.shares.set(ondemand.Shares{"default": 0.5}) }, 0, false},
		} {
			c := newCrowd(t, 1)
			test.prepare(c)
			time.Sleep(test.after)
			for _, pod := range []*corev1.Pod{c.pod("default", "web", 100, 0), daemonPod(c)} {
				_, status := c.reserve.PreFilter(t.Context(), nil, pod, nil)
				if want := test.skipped || ownedByDaemonSet(pod); status.IsSkip() != want {
					t.Errorf("%s, pod %s: skipped %t, want %t", name, pod.Name, status.IsSkip(), want)
				}
			}
		}
	})
}

// A pod is tried again when the room becomes free that it was kept off, and also where that came between a filter's look at the room and its note of the pod: the
// planner had no pod to wake then. Without a change it is left alone.
func TestRoomThatIsFreeBeforeThePodIsNoted(t *testing.T) {
	for _, late := range []bool{false, true} {
		c := newCrowd(t, 1)
		c.fill(1)
		node := c.nodes[0]
		wakes := func() int { return len(c.reserve.freed(c.reserve.reserved.Board().Freed())) }
		free := func() {
			for _, p := range c.table.On("", node.Node().Name) {
				c.table.Drop(p.UID)
			}
			c.publish()
			if n := wakes(); late && n > 0 {
				t.Errorf("%d pods are awake before any was kept off", n)
			} else if !late && n != 1 {
				t.Errorf("%d pods are awake once the room is free, want the one", n)
			}
		}
		pod := c.pod("other", "batch", int(node.Node().Status.Allocatable.Cpu().MilliValue()), 0)
		kept := c.reserve.keptOn(t.Context(), pod, node)
		if late {
			free()
		}
		if status := c.reserve.refuse(t.Context(), pod, node, kept); status.IsSuccess() {
			t.Fatal("the pod is not kept off")
		}
		if !late {
			c.publish()
			if n := wakes(); n > 0 {
				t.Errorf("%d pods are awake while nothing is free", n)
			}
			free()
		} else if n := wakes(); n != 1 {
			t.Errorf("%d pods are awake after one was noted late, want it", n)
		}
		if n := wakes(); n > 0 {
			t.Errorf("late %t: %d pods are awake twice", late, n)
		}
	}
}

// A message names pods whose room the pod may not take: room of lower priority gives way to it.
func TestWhoseRoomItIs(t *testing.T) {
	low, high := reservations.Need{Priority: 0}, reservations.Need{Priority: 1000}
	kept := keptRoom{standing: []reservations.Need{low}, promised: []reservations.Need{low}, daemons: []reservations.Need{high}}
	pod := &corev1.Pod{}
	for _, c := range []struct {
		priority int32
		want     string
	}{{0, "pods that a buffer waits for: "}, {500, "DaemonSet pods that have not arrived: "}} {
		pod.Spec.Priority = new(c.priority)
		if got := kept.whose(pod); got != c.want {
			t.Errorf("against priority %d: %q, want %q", c.priority, got, c.want)
		}
	}
}

func promised() promise.Promise {
	return promise.Promise{Pod: catalog.PodRef{Namespace: "default", Name: "web", UID: "uid"}, NodeClaim: "claim"}
}

func daemonPod(c *crowd) *corev1.Pod {
	pod := c.pod("kube-system", "agent", 100, 0)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	return pod
}

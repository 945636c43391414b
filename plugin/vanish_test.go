package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

// A pod that ends in a moment makes room for one pod of its controller, unless its node takes none, or it is stuck.
func TestRoomOfAPodThatEnds(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name string
		// ends is when the old pod of controller a on node n is due; nil for never.
		ends  *time.Duration
		tweak func(old *corev1.Pod, node *corev1.Node, fresh *corev1.Pod)
		// waited is how long the new one has.
		waited time.Duration
		want   bool
	}{
		{name: "it serves on"},
		{name: "it is deleted without a grace period", ends: new(time.Duration(0)), want: true},
		{name: "it ends sooner than a node boots", ends: new(3 * time.Second), want: true},
		{name: "it has its ordinary grace period", ends: new(30 * time.Second)},
		{name: "it should have ended long ago", ends: new(-time.Minute)},
		{name: "it does not end", ends: new(time.Duration(0)), waited: endsWithin},
		{name: "it has run to its end", ends: new(time.Duration(0)), tweak: func(old *corev1.Pod, _ *corev1.Node, _ *corev1.Pod) { old.Status.Phase = corev1.PodSucceeded }},
		{name: "it has no node", ends: new(time.Duration(0)), tweak: func(old *corev1.Pod, _ *corev1.Node, _ *corev1.Pod) { old.Spec.NodeName = "" }},
		{name: "its node is gone", ends: new(time.Duration(0)), tweak: func(old *corev1.Pod, _ *corev1.Node, _ *corev1.Pod) { old.Spec.NodeName = "gone" }},
		{name: "its node goes", ends: new(time.Duration(0)), tweak: func(_ *corev1.Pod, node *corev1.Node, _ *corev1.Pod) {
			node.Spec.Taints = []corev1.Taint{{Key: disruptedTaint, Effect: corev1.TaintEffectNoSchedule}}
		}},
		{name: "its node is cordoned", ends: new(time.Duration(0)), tweak: func(_ *corev1.Pod, node *corev1.Node, _ *corev1.Pod) { node.Spec.Unschedulable = true }},
		{name: "its node is one that others would rather not have", ends: new(time.Duration(0)), want: true, tweak: func(_ *corev1.Pod, node *corev1.Node, _ *corev1.Pod) {
			node.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
		}},
		{name: "it is another controller's", ends: new(time.Duration(0)), tweak: func(_ *corev1.Pod, _ *corev1.Node, fresh *corev1.Pod) { fresh.OwnerReferences[0].UID = "b" }},
		{name: "nobody makes it again", ends: new(time.Duration(0)), tweak: func(_ *corev1.Pod, _ *corev1.Node, fresh *corev1.Pod) { fresh.OwnerReferences = nil }},
	} {
		old, fresh := ownedPod("old", "a", "n"), ownedPod("fresh", "a", "")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		if c.ends != nil {
			old.DeletionTimestamp = &metav1.Time{Time: now.Add(*c.ends)}
		}
		if c.tweak != nil {
			c.tweak(old, node, fresh)
		}
		e := &endings{
			now: now, left: map[string][]*corev1.Pod{},
			pods: func(controller string) []*corev1.Pod {
				if controller != intake.ControllerKey(fresh.Namespace, &metav1.OwnerReference{UID: "a"}) {
					return nil
				}
				return []*corev1.Pod{ownedPod("serves", "a", "n"), old}
			},
			node: func(name string) *corev1.Node {
				if name != "n" {
					return nil
				}
				return node
			},
		}
		at := now.Add(-c.waited)
		if got := e.roomOf(klog.Background(), fresh, at); (got == old) != c.want {
			t.Errorf("%s: the room of %v, want it to be %v", c.name, got, c.want)
		}
		if got := e.roomOf(klog.Background(), ownedPod("second", "a", ""), at); c.want && got != nil {
			t.Errorf("%s: two pods get the room of one", c.name)
		}
	}
}

// Once the old pod has ended the scheduler has a moment to try the new one there, and then it gets a node.
func TestAwaitsRoom(t *testing.T) {
	p := newIdlePlanner(t)
	p.unplaced = map[types.UID]intake.Entry{}
	start := time.Now()
	old, fresh := ownedPod("old", "a", "n"), ownedPod("fresh", "a", "")
	old.DeletionTimestamp = &metav1.Time{Time: start}
	awaits := func(after time.Duration, e intake.Entry, there ...*corev1.Pod) bool {
		return p.awaitsRoom(t.Context(), &endings{
			now: start.Add(after), left: map[string][]*corev1.Pod{},
			pods: func(string) []*corev1.Pod { return there },
			node: func(string) *corev1.Node { return &corev1.Node{} },
		}, e, fresh)
	}
	if awaits(0, intake.Entry{Pod: fresh, At: start}) {
		t.Error("nothing ends, and the pod waits")
	}
	for _, step := range []struct {
		after time.Duration
		there []*corev1.Pod
		want  bool
	}{
		{0, []*corev1.Pod{old}, true}, {4 * time.Second, []*corev1.Pod{old}, true}, {5 * time.Second, nil, true}, {6 * time.Second, nil, false},
	} {
		e, known := p.unplaced[fresh.UID]
		if !known {
			e = intake.Entry{Pod: fresh, At: start}
		}
		if got := awaits(step.after, e, step.there...); got != step.want {
			t.Fatalf("after %s: the pod waits %v, want %v", step.after, got, step.want)
		}
		if due := p.replan.at; step.want && !due.Equal(start.Add(step.after+housekeeping)) {
			t.Errorf("after %s: it is looked at again at %s, want a second later", step.after, due)
		}
		p.replan.at = time.Time{}
	}
}

// ownedPod is one of an owner's, on a node.
func ownedPod(name, owner, node string) *corev1.Pod {
	pod := benchPod(name, node)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	return pod
}

package pending

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
			node.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{name: "its node is cordoned", ends: new(time.Duration(0)), tweak: func(_ *corev1.Pod, node *corev1.Node, _ *corev1.Pod) { node.Spec.Unschedulable = true }},
		{name: "its node is one that others would rather not have", ends: new(time.Duration(0)), want: true, tweak: func(_ *corev1.Pod, node *corev1.Node, _ *corev1.Pod) {
			node.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
		}},
		{name: "it is another controller's", ends: new(time.Duration(0)), tweak: func(_ *corev1.Pod, _ *corev1.Node, fresh *corev1.Pod) { fresh.OwnerReferences[0].UID = "b" }},
		{name: "no controller makes it again", ends: new(time.Duration(0)), tweak: func(_ *corev1.Pod, _ *corev1.Node, fresh *corev1.Pod) { fresh.OwnerReferences = nil }},
	} {
		old, fresh := ownedPod("old", "n"), ownedPod("fresh", "")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		if c.ends != nil {
			old.DeletionTimestamp = &metav1.Time{Time: now.Add(*c.ends)}
		}
		if c.tweak != nil {
			c.tweak(old, node, fresh)
		}
		e := NewTerminating(now,
			func(controller intake.Controller) []*corev1.Pod {
				if controller != (intake.Controller{Namespace: fresh.Namespace, UID: "a"}) {
					return nil
				}
				return []*corev1.Pod{ownedPod("serves", "n"), old}
			},
			func(name string) *corev1.Node {
				if name != "n" {
					return nil
				}
				return node
			})
		at := now.Add(-c.waited)
		if got := e.RoomFor(klog.Background(), fresh, at); (got == old) != c.want {
			t.Errorf("%s: the room of %v, want it to be %v", c.name, got, c.want)
		}
		if got := e.RoomFor(klog.Background(), ownedPod("second", ""), at); c.want && got != nil {
			t.Errorf("%s: two pods get the room of one", c.name)
		}
	}
}

// ownedPod is one of controller a's, on a node.
func ownedPod(name, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "a", UID: "a", Controller: new(true)}}
	return pod
}

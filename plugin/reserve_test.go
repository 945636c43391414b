package plugin_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func agent() *appsv1.DaemonSet {
	high := int32(1000)
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "kube-system", UID: "agent"},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Priority: &high, Containers: newPod("x", "400m", "64Mi").Spec.Containers,
		}}},
	}
}

// The room that the plan counted for a DaemonSet's pod is kept until it is there.
func TestRoomOfDaemonPodsIsKept(t *testing.T) {
	node := newNode("young", "1", map[string]string{"karpenter.sh/nodepool": "default"})
	node.Status.Conditions[0].LastTransitionTime = metav1.Now()
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{node, agent()}})
	h.pod("first", nil)
	h.eventually("a pod that leaves room", func() bool { return h.bound() == 1 })
	h.pod("second", func(p *corev1.Pod) { p.Spec.Containers = newPod("x", "300m", "64Mi").Spec.Containers })
	h.eventually("the second pod to be told", func() bool { return strings.Contains(h.message("second"), "0/1 nodes are available") })
	if h.bound() != 1 {
		t.Fatal("the second pod took the room of the DaemonSet's pod")
	}
	h.pod("urgent", func(p *corev1.Pod) {
		higher := int32(2000)
		p.Spec.Priority = &higher
		p.Spec.Containers = newPod("x", "50m", "64Mi").Spec.Containers
	})
	h.eventually("a pod of higher priority than the DaemonSet's", func() bool { return h.bound() == 2 })
	yes := true
	h.pod("agent-x", func(p *corev1.Pod) {
		p.Spec.NodeName = "young"
		p.Spec.Containers = newPod("x", "100m", "64Mi").Spec.Containers
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: types.UID("agent"), Controller: &yes}}
	})
	h.eventually("the rest of the room once it has arrived", func() bool { return h.bound() == 4 })
}

// Nodes that are Ready for long, or not ours, are not looked at.
func TestNoRoomIsKeptOnOldNodes(t *testing.T) {
	old := newNode("old", "1", map[string]string{"karpenter.sh/nodepool": "default"})
	old.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-3 * time.Minute))
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{old, newNode("other", "1", nil), agent()}})
	for _, name := range []string{"a", "b", "c", "d"} {
		h.pod(name, nil)
	}
	h.eventually("all room to be used", func() bool { return h.bound() == 4 })
}

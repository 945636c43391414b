package plugin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	t.Parallel()
	node := newNode("young", "1", map[string]string{"karpenter.sh/nodepool": "default"})
	node.Status.Conditions[0].LastTransitionTime = metav1.Now()
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{node, agent()}})
	h.pod("first", nil)
	h.eventually("a pod that leaves room", func() bool { return h.bound() == 1 })
	h.pod("second", func(p *corev1.Pod) { p.Spec.Containers = newPod("x", "300m", "64Mi").Spec.Containers })
	h.eventually("the second pod's condition", func() bool { return strings.Contains(h.message("second"), "0/1 nodes are available") })
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
		p.Namespace, p.Spec.NodeName = "kube-system", "young"
		p.Spec.Containers = newPod("x", "100m", "64Mi").Spec.Containers
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: types.UID("agent"), Controller: &yes}}
	})
	h.eventually("the rest of the room once it has arrived", func() bool { return h.bound() == 4 })
}

// A pod that was kept off several nodes is tried again as soon as the room of the first of them is free.
func TestTheFirstRoomThatIsFree(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{agent()}
	for i := range 30 {
		node := newNode(fmt.Sprintf("young-%d", i), "600m", map[string]string{"karpenter.sh/nodepool": "default"})
		node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(time.Hour))
		if i == 0 {
			node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-115 * time.Second))
		}
		objects = append(objects, node)
	}
	h := start(t, harnessOptions{absent: true, objects: objects})
	h.pod("waits", nil)
	h.eventually("the pod on the node whose room is free", func() bool { return h.nodeOf("waits") == "young-0" })
}

// A pod that was kept off the room of a DaemonSet's pod is tried again when another pod has left the node: there may be room beside.
func TestRoomBesideThatOfDaemonPods(t *testing.T) {
	t.Parallel()
	node := newNode("young", "1", map[string]string{"karpenter.sh/nodepool": "default"})
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(time.Hour))
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{node, agent()}})
	h.pod("first", nil)
	h.eventually("a pod that leaves room", func() bool { return h.nodeOf("first") == "young" })
	h.pod("second", nil)
	h.eventually("the second pod's condition", func() bool { return h.says("second", "room is reserved for DaemonSet pods") })
	if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the second pod in the first one's place", func() bool { return h.nodeOf("second") == "young" })
}

// Nodes that are Ready for long, or not ours, are not looked at.
func TestNoRoomIsKeptOnOldNodes(t *testing.T) {
	t.Parallel()
	old := newNode("old", "1", map[string]string{"karpenter.sh/nodepool": "default"})
	old.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-3 * time.Minute))
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{old, newNode("other", "1", nil), agent()}})
	for _, name := range []string{"a", "b", "c", "d"} {
		h.pod(name, nil)
	}
	h.eventually("all room to be used", func() bool { return h.bound() == 4 })
}

// A DaemonSet whose pods ask for more than the node has never has one there.
func TestNoRoomIsKeptForDaemonPodsThatNeverRun(t *testing.T) {
	t.Parallel()
	node := newNode("young", "1", map[string]string{"karpenter.sh/nodepool": "default"})
	node.Status.Conditions[0].LastTransitionTime = metav1.Now()
	huge := agent()
	huge.Spec.Template.Spec.Containers = newPod("x", "400", "64Mi").Spec.Containers
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{node, huge}})
	h.pod("first", nil)
	h.pod("second", nil)
	h.eventually("all room to be used", func() bool { return h.bound() == 2 })
}

// What admission adds to a DaemonSet's pods is room too, also when the LimitRange comes after the DaemonSet.
func TestRoomOfDaemonPodsAsAdmissionMakesThem(t *testing.T) {
	t.Parallel()
	node := newNode("young", "1", map[string]string{"karpenter.sh/nodepool": "default"})
	node.Status.Conditions[0].LastTransitionTime = metav1.Now()
	bare := agent()
	bare.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{node, bare}})
	h.pod("first", func(p *corev1.Pod) { p.Spec.Containers = newPod("x", "100m", "64Mi").Spec.Containers })
	h.eventually("a pod beside a DaemonSet without requests", func() bool { return h.bound() == 1 })
	ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "defaults", Namespace: "kube-system"}}
	ranges.Spec.Limits = []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("600m")},
	}}
	if _, err := h.client.CoreV1().LimitRanges("kube-system").Create(t.Context(), ranges, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the LimitRange to be seen", func() bool {
		list, err := h.informer.Core().V1().LimitRanges().Lister().List(labels.Everything())
		return err == nil && len(list) == 1
	})
	h.pod("second", func(p *corev1.Pod) { p.Spec.Containers = newPod("x", "400m", "64Mi").Spec.Containers })
	h.eventually("the second pod's condition", func() bool { return strings.Contains(h.message("second"), "0/1 nodes are available") })
	if h.bound() != 1 {
		t.Error("the second pod took the room of the DaemonSet's pod")
	}
}

package day

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// nodeWith is a node of a NodePool that is ready from the minute.
func nodeWith(name, pool string, ready int) *node {
	n := &node{ready: ready, object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		karpv1.NodePoolLabelKey: pool, corev1.LabelHostname: name, corev1.LabelTopologyZone: "a",
	}}}}
	n.object.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("20"),
	}
	return n
}

// kube-scheduler binds a pod that has come to the emptiest node, or with the other scoring strategy to the fullest one; to none that boots, or that another
// NodePool has; and not at all where no node has room.
func TestPodsThatHaveComeAreBound(t *testing.T) {
	small := service{name: "small", cpu: "4", memory: "16Gi"}
	for packed, want := range map[bool]string{false: "empty", true: "half"} {
		c := &cluster{nodes: map[string]*node{}, pods: map[string]*pod{}, now: 1, steps: 1}
		for _, n := range []*node{nodeWith("boots", "steady", 2), nodeWith("empty", "steady", 0), nodeWith("half", "steady", 0), nodeWith("leaves", "steady", 0), nodeWith("others", "flexible", 0)} {
			c.nodes[n.object.Name] = n
		}
		c.nodes["leaves"].gone = 3
		for i := range 2 {
			there := newPod(fmt.Sprint("there-", i), "Job", small)
			c.pods[there.Name] = &pod{object: there, node: "half"}
		}
		scheduler, err := newKubeScheduler(t.Context(), packed)
		if err != nil {
			t.Fatal(err)
		}
		come := []*corev1.Pod{newPod("lone", "Job", small), newPod("large", "Job", service{name: "large", cpu: "17", memory: "1Gi"})}
		nodes, pods := running(c)
		bound, err := scheduler.bind(t.Context(), come, nodes, pods)
		if err != nil {
			t.Fatal(err)
		}
		if len(bound) != 1 || bound["lone"] != want {
			t.Errorf("packed %v: the pods were bound to %v, want %q for the one that fits", packed, bound, want)
		}
	}
}

// A Deployment's pods are spread over nodes by kube-scheduler's default, also where it prefers the fullest node.
func TestDeploymentsAreSpread(t *testing.T) {
	var nodes []*corev1.Node
	var come []*corev1.Pod
	for i := range 4 {
		nodes = append(nodes, nodeWith(fmt.Sprint("n-", i), "steady", 0).object)
		come = append(come, newPod(fmt.Sprint("web-", i), "ReplicaSet", services()[0]))
	}
	scheduler, err := newKubeScheduler(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := scheduler.bind(t.Context(), come, nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]bool{}
	for _, name := range bound {
		on[name] = true
	}
	if len(on) != 4 {
		t.Errorf("four pods of a Deployment are on %v", bound)
	}
}

package reject_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/reject"
)

func list(cpu, memory, pods string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse(pods),
	}
}

func rejected(reason, message string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message}
	return p
}

// node is one that reports so much.
func node(reported corev1.ResourceList) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u-n"}}
	n.Status.Allocatable = reported
	return n
}

// mirror is a pod that the node's kubelet runs from a file.
func mirror(cpu string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Annotations = map[string]string{"kubernetes.io/config.mirror": "hash"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u-n", Controller: new(true)}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{}}
	return p
}

// The messages are a kubelet's own, with what it puts before them.
func TestJudge(t *testing.T) {
	const pre = "Pod was rejected: "
	planned := list("1930m", "7Gi", "29")
	cases := []struct {
		name, message string
		reported      corev1.ResourceList
		onNode        []*corev1.Pod
		resource      corev1.ResourceName
		room          string
	}{
		{"the node reports less cpu", pre + "Node didn't have enough resource: cpu, requested: 500, used: 1000, capacity: 930", list("930m", "7Gi", "29"), nil, "cpu", "930m"},
		{"less memory", pre + "Node didn't have enough resource: memory, requested: 1073741824, used: 6442450944, capacity: 6979321856", list("1930m", "6656Mi", "29"), nil, "memory", "6656Mi"},
		{"fewer pods", pre + "Node didn't have enough resource: pods, requested: 1, used: 17, capacity: 17", list("1930m", "7Gi", "17"), nil, "pods", "17"},
		{"its kubelet runs pods from files", pre + "Node didn't have enough resource: cpu, requested: 500, used: 1600, capacity: 1930", planned, []*corev1.Pod{mirror("250m"), {}}, "cpu", "1680m"},
		{"such pods count as pods, too", pre + "Node didn't have enough resource: pods, requested: 1, used: 29, capacity: 29", planned, []*corev1.Pod{mirror("250m"), mirror("1m"), {}}, "pods", "27"},
		{"nothing explains it", pre + "Node didn't have enough resource: cpu, requested: 500, used: 1500, capacity: 1930", planned, nil, "cpu", "1860m"},
		{"whole cores", pre + "Allocate failed due to not enough cpus available to satisfy request: requested=2, available=1, which is unexpected", planned, nil, "cpu", "930m"},
		{"more lacked than there is", pre + "Node didn't have enough resource: cpu, requested: 90000, used: 1500, capacity: 1930", planned, nil, "cpu", "0"},
		{"a device", pre + "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0", planned, nil, "", "0"},
		{"no want of room", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector", planned, nil, "", "0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := reject.Judge(reject.Facts{Pod: rejected("x", c.message), Node: node(c.reported), Promised: planned, OnNode: c.onNode, Ours: true})
			if want := resource.MustParse(c.room); got.Resource != c.resource || got.Room.Cmp(want) != 0 {
				t.Errorf("%s of %q, want %s of %q", got.Room.String(), got.Resource, c.room, c.resource)
			}
		})
	}
}

// Pods that another user or scheduler put on a node show nothing about the capacity of its type.
func TestOthersPodsTeachNothing(t *testing.T) {
	const message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 1200, used: 1500, capacity: 1930"
	planned := list("1930m", "7Gi", "29")
	pod, other := rejected("OutOfcpu", message), &corev1.Pod{}
	other.UID = "other"
	for _, p := range []*corev1.Pod{pod, other} {
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1200m")}}}}
	}
	for name, f := range map[string]reject.Facts{
		"bound by somebody else":          {Pod: pod, Node: node(planned), Promised: planned},
		"beside what somebody else bound": {Pod: pod, Node: node(planned), Promised: planned, OnNode: []*corev1.Pod{pod, other}, Ours: true},
	} {
		if got := reject.Judge(f); got.Resource != "" {
			t.Errorf("%s: teaches that there is room for %s of %s", name, got.Room.String(), got.Resource)
		}
	}
}

// Every user who may create pods can make one look like a static pod.
func TestFakedMirrorPodsTeachNothing(t *testing.T) {
	const message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 64000, used: 0, capacity: 1930"
	planned := list("1930m", "7Gi", "29")
	for name, change := range map[string]func(*corev1.Pod){
		"no owner":              func(p *corev1.Pod) { p.OwnerReferences = nil },
		"another node":          func(p *corev1.Pod) { p.OwnerReferences[0].Name = "m" },
		"a node that was":       func(p *corev1.Pod) { p.OwnerReferences[0].UID = "u-m" },
		"another kind":          func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
		"another group":         func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" },
		"an owner among many":   func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil },
		"failed":                func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"never started":         func(p *corev1.Pod) { p.Status.StartTime = nil },
		"without the kubelet's": func(p *corev1.Pod) { p.Annotations = nil },
	} {
		faked := mirror("1900m")
		change(faked)
		got := reject.Judge(reject.Facts{Pod: rejected("OutOfcpu", message), Node: node(planned), Promised: planned, OnNode: []*corev1.Pod{faked}})
		if got.Resource != "" {
			t.Errorf("%s: teaches that there is room for %s of %s", name, got.Room.String(), got.Resource)
		}
	}
}

func TestRejected(t *testing.T) {
	for _, reason := range []string{"OutOfcpu", "OutOfpods", "OutOfexample.com/device", "UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError"} {
		if !reject.Rejected(rejected(reason, "")) {
			t.Errorf("%s is no rejection", reason)
		}
	}
	ran := rejected("OutOfcpu", "")
	ran.Status.ContainerStatuses = []corev1.ContainerStatus{{}}
	running := rejected("OutOfcpu", "")
	running.Status.Phase = corev1.PodRunning
	for name, p := range map[string]*corev1.Pod{"evicted": rejected("Evicted", ""), "ran": ran, "running": running} {
		if reject.Rejected(p) {
			t.Errorf("%s: taken for a rejection", name)
		}
	}
}

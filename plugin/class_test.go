package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// One pod is tried on the nodes, its siblings are answered by its failure, and all are planned together; a sibling that comes
// when there is room is scheduled.
func TestOneFailureSpeaksForItsClass(t *testing.T) {
	t.Parallel()
	const siblings = 20
	objects := []runtime.Object{newNode("full", "100m", nil)}
	for i := range siblings {
		pod := newPod(fmt.Sprintf("web-%d", i), "500m", "512Mi")
		ownedBy("web")(pod)
		objects = append(objects, pod)
	}
	h := start(t, harnessOptions{objects: objects, args: []string{"batchIdle: 1m", "batchMax: 2m"}})
	h.replicaSet("web", siblings)
	h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == siblings })
	if n := len(h.launcher.requests()); n != 1 {
		t.Errorf("%d batches", n)
	}
	answers := h.metric("slipway_class_answers_total", "")
	if answers == 0 {
		t.Error("every pod was tried on the nodes")
	}
	h.eventually("the last pod's condition", func() bool { return strings.Contains(h.message("web-19"), "launching") })
	h.createNode(newNode("room", "600m", nil))
	h.eventually("the node to be seen", func() bool { return len(h.sched.Cache.Dump().Nodes) == 2 })
	h.pod("late", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
	h.eventually("the late pod to be bound", func() bool { return h.bound() == 1 })
	if h.launcher.podNames()["late"] != 0 {
		t.Error("a node was launched for a pod that fits")
	}
}

// The scheduler's verdict on the nodes that exist is reported on the pods that were not tried, too.
func TestRepeatedVerdictIsReported(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{newNode("full", "100m", nil)}
	for i := range 5 {
		objects = append(objects, newPod(fmt.Sprintf("big-%d", i), "500", "512Mi"))
	}
	h := start(t, harnessOptions{objects: objects})
	for i := range 5 {
		h.eventually("the pod's condition", func() bool {
			m := h.message(fmt.Sprintf("big-%d", i))
			return strings.HasPrefix(m, "0/1 nodes are available: 1 Insufficient cpu") && strings.Contains(m, "No node can be launched: NodePool default: ")
		})
	}
	if h.metric("slipway_class_answers_total", "") == 0 {
		t.Error("every pod was tried on the nodes")
	}
}

// In a large cluster equal pods are placed on the best nodes of the first one, unless the profile says how many nodes are scored.
func TestEqualPodsLookAtFewNodes(t *testing.T) {
	t.Parallel()
	const nodes, pods = 400, 18
	for name, percentage := range map[string]*int32{"kube-scheduler's choice": nil, "all nodes": new(int32(100))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []runtime.Object
			for i := range nodes {
				objects = append(objects, newNode(fmt.Sprintf("n%d", i), "4", nil))
			}
			for i := range pods {
				objects = append(objects, newPod(fmt.Sprintf("web-%d", i), "500m", "512Mi"))
			}
			h := start(t, harnessOptions{objects: objects, profile: func(p *config.KubeSchedulerProfile) { p.PercentageOfNodesToScore = percentage }})
			h.eventually("all pods to be bound", func() bool { return h.bound() == pods })
			if hinted := h.metric("slipway_hinted_pods_total", ""); (hinted > 0) != (percentage == nil) {
				t.Errorf("%v pods were placed without a look at all nodes", hinted)
			}
		})
	}
}

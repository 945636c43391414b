package plugin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// grown returns a Deployment's pods, one of which came every three minutes until a moment ago, on the node.
func grown(name, node string, n int) []runtime.Object {
	out := []runtime.Object{replicaSet(name, n+2)} // Two more come.
	for i := range n {
		pod := newPod(fmt.Sprintf("%s-%d", name, i), "500m", "512Mi")
		ownedBy(name)(pod)
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
		pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Duration(i) * 3 * time.Minute))
		out = append(out, pod)
	}
	return out
}

// Pods of a Deployment that has grown for an hour get a node with room for some that are expected, and it is said where: on the pods and in a metric.
// Those of one that opts out get a node for themselves, and the argument switches it off for all.
func TestRoomForPodsThatAreExpected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		pod  func(*corev1.Pod)
		room float64
	}{
		"by default": {nil, func(*corev1.Pod) {}, 5},
		"opted out":  {nil, func(p *corev1.Pod) { p.Annotations = map[string]string{"slipway.dev/expect-growth": "false"} }, 0},
		"off":        {[]string{"expectGrowth: false"}, func(*corev1.Pod) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{
				args: append([]string{"batchIdle: 1m", "batchMax: 2m"}, c.args...), objects: append(grown("web", "full", 30), newNode("full", "100m", nil)),
			})
			for i := range 2 {
				h.pod(fmt.Sprintf("web-new-%d", i), func(p *corev1.Pod) {
					ownedBy("web")(p)
					p.CreationTimestamp = metav1.Now()
					p.Spec.NodeSelector = map[string]string{"node.kubernetes.io/instance-type": "m7g.xlarge"}
					c.pod(p)
				})
			}
			h.eventually("a node for the pods", func() bool { return len(h.launcher.podNames()) == 2 })
			if n := len(h.launcher.claims()); n != 1 {
				t.Errorf("%d nodes are launched", n)
			}
			for name, times := range h.launcher.podNames() {
				if times != 1 || !strings.HasPrefix(name, "web-new-") {
					t.Errorf("a node is for pod %s", name)
				}
			}
			h.eventually("the message", func() bool { return strings.Contains(h.message("web-new-0"), "launching m7g.xlarge") })
			const says = "with room for 5 pods that Deployment default/web is expected to add"
			if said := strings.Contains(h.message("web-new-0"), says); said != (c.room > 0) {
				t.Errorf("the message is %s", h.message("web-new-0"))
			}
			if n := h.metric("slipway_expected_pods_total", ""); n != c.room {
				t.Errorf("there is room for %v pods, want %v", n, c.room)
			}
		})
	}
}

// Consolidation buys nodes with the free room that is left now for pods that are expected. No pod is evicted for these, and none is counted.
func TestConsolidationKeepsRoomForPodsThatAreExpected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		pod  func(*corev1.Pod)
		most float64
	}{
		"kept": {nil, func(*corev1.Pod) {}, 0.12}, "off": {[]string{"expectGrowth: false"}, func(*corev1.Pod) {}, 0.03},
		"not for pods that are away from others": {nil, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		}, 0.03},
		"not for gangs": {nil, func(p *corev1.Pod) { p.Labels = map[string]string{"slipway.dev/gang": "g"} }, 0.03},
		"not for volumes": {nil, func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}, 0.03},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grows := grown("grows", "full", 30)
			for _, pod := range grows[1:] {
				c.pod(pod.(*corev1.Pod))
			}
			h := start(t, harnessOptions{args: append([]string{"batchIdle: 1m", "batchMax: 2m"}, c.args...), objects: append(grows,
				newNode("full", "100m", nil), newNode("one", "3920m", bought("m7g.xlarge", "on-demand")), newNode("two", "3920m", bought("m7g.xlarge", "on-demand")),
				replicaSet("web", 2))})
			h.on("one", "a")
			h.on("two", "b")
			h.known("one", 1)
			h.known("two", 1)
			h.known("full", 30)
			m := onlyMove(t, h.consolidate("1", "", 2))
			price := 0.0
			for _, r := range m.GetReplacements() {
				price += r.GetPrice()
			}
			if len(m.GetNodeNames()) != 2 || m.GetEvictions() != 2 || price < c.most/2 || price > c.most {
				t.Errorf("the nodes launched cost %f: %v", price, m)
			}
		})
	}
}

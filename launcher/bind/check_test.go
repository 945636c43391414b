package bind_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/bind"
)

func other(uid, cpu string, phase corev1.PodPhase) *corev1.Pod {
	f := ordinary()
	f.Pod.UID, f.Pod.Status.Phase = types.UID(uid), phase
	requests("cpu", cpu)(&f)
	return f.Pod
}

// A kubelet's rejection is final, so the Node as it really is decides (R8).
func TestCheck(t *testing.T) {
	zone := func(f *bind.Facts) { f.Pod.Spec.NodeSelector = map[string]string{"zone": "a"} }
	broken := func(f *bind.Facts) {
		f.Pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Near"}},
			}}},
		}}
	}
	cases := []struct {
		name   string
		change change
		node   func(n *corev1.Node)
		others []*corev1.Pod
		want   string
	}{
		{name: "it fits"},
		{name: "its labels", change: zone},
		{name: "a label that differs", change: zone, node: func(n *corev1.Node) { n.Labels["zone"] = "b" }, want: "labels"},
		{name: "an affinity that nobody can read", change: broken, want: "cannot be read"},
		{name: "a taint", node: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
		}, want: "does not tolerate taint dedicated"},
		{name: "too much CPU", change: requests("cpu", "3"), want: "cpu"},
		{name: "others leave too little", change: requests("cpu", "1"), others: []*corev1.Pod{other("o1", "1500m", "Running")}, want: "500m left"},
		{name: "finished pods take nothing", others: []*corev1.Pod{other("o1", "2", corev1.PodSucceeded), other("o2", "2", corev1.PodFailed)}},
		{name: "it is not in its own way", others: []*corev1.Pod{other("uid-web-1", "2", "Pending")}},
		{name: "no slot left", others: []*corev1.Pod{other("o1", "0", "Running"), other("o2", "0", "Running")}, want: "one more pod"},
		{name: "a resource that the node does not show", change: requests("nvidia.com/gpu", "1"), want: "nvidia.com/gpu"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := ordinary()
			if c.change != nil {
				c.change(&f)
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"zone": "a"}}}
			node.Status.Allocatable = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("2"),
			}
			if c.node != nil {
				c.node(node)
			}
			got := bind.Check(f.Pod, node, c.others)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if q := node.Status.Allocatable[corev1.ResourceCPU]; q.String() != "2" {
				t.Error("the Node was changed")
			}
		})
	}
}

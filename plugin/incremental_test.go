package plugin_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
	"github.com/slipway-k8s/slipway/plugin/incremental/spread"
)

// With the sample's profile pods with affinity to each other are bound on one node, and the one for which it has no room is bound on no other; pods that spread
// are bound on both.
func TestIncrementalPlugins(t *testing.T) {
	t.Parallel()
	together := func(p *corev1.Pod) {
		ownedBy("web")(p)
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}}}
	}
	var objects []runtime.Object
	for _, name := range []string{"one", "two"} {
		objects = append(objects, newNode(name, "1200m", map[string]string{"kubernetes.io/hostname": name}))
	}
	for i := range 3 {
		pod := newPod(fmt.Sprintf("web-%d", i), "500m", "128Mi")
		pod.Labels = map[string]string{"app": "web"}
		together(pod)
		objects = append(objects, pod)
	}
	for i := range 4 {
		pod := newPod(fmt.Sprintf("apart-%d", i), "50m", "16Mi")
		pod.Labels = map[string]string{"app": "apart"}
		ownedBy("apart")(pod)
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}
		objects = append(objects, pod)
	}
	h := start(t, harnessOptions{objects: objects, profile: func(p *config.KubeSchedulerProfile) {
		for _, name := range []string{affinity.Name, spread.Name} {
			if !slices.ContainsFunc(p.Plugins.MultiPoint.Enabled, func(e config.Plugin) bool { return e.Name == name }) {
				t.Errorf("the sample has no %s", name)
			}
		}
	}})
	h.eventually("two of the pods that go together, and all that spread, to be bound", func() bool { return h.bound() == 6 })
	on := map[string]int{}
	for i := range 3 {
		on[h.get(fmt.Sprintf("web-%d", i)).Spec.NodeName]++
	}
	if on["one"] != 2 && on["two"] != 2 {
		t.Errorf("pods by node: %v, want two on one", on)
	}
	apart := map[string]int{}
	for i := range 4 {
		apart[h.get(fmt.Sprintf("apart-%d", i)).Spec.NodeName]++
	}
	if apart["one"] != 2 || apart["two"] != 2 {
		t.Errorf("pods that spread by node: %v, want two on each", apart)
	}
}

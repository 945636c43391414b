package plugin_test

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// The profile that docs/scheduler.md shows, read as a scheduler reads it, starts: pods with affinity to each other are bound on one node, and the
// one for which it has no room is bound on no other; pods that spread are bound on both.
func TestIncrementalPlugins(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/scheduler.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```yaml\n(plugins:\n  multiPoint:.*?)```").FindSubmatch(page)
	if shown == nil {
		t.Fatal("the page shows no profile")
	}
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- " + regexp.MustCompile("\n(.)").ReplaceAllString(string(shown[1]), "\n  $1")
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	read := obj.(*config.KubeSchedulerConfiguration).Profiles[0]
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
		p.Plugins.MultiPoint = read.Plugins.MultiPoint
		launch := p.PluginConfig
		p.PluginConfig = read.PluginConfig
		for _, c := range launch {
			if c.Name == "NodeLaunch" {
				p.PluginConfig = append(p.PluginConfig, c)
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

package plugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// Requests that no 64 bits hold overflow in the scheduler's own sums, so that the pod fits a node with one CPU. Such a pod is bound
// nowhere, and says why; other pods are bound.
func TestQuantitiesBeyondEveryNode(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("small", "1", nil), newNode("other", "1", nil)}})
	asks := map[string]corev1.ResourceList{
		"exa":    {corev1.ResourceCPU: resource.MustParse("1E")},
		"exbi":   {corev1.ResourceCPU: resource.MustParse("8Ei")},
		"nines":  {corev1.ResourceCPU: resource.MustParse(strings.Repeat("9", 46))},
		"memory": {corev1.ResourceMemory: resource.MustParse("1e30")},
	}
	for name, ask := range asks {
		h.pod(name, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = ask })
	}
	h.pod("halves", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4611686018427387904")}
		p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
		p.Spec.Containers[1].Name = "d"
	})
	h.pod("plain", nil)
	h.eventually("each pod to be bound or to say why not", func() bool {
		said := 0
		for _, name := range []string{"exa", "exbi", "nines", "memory", "halves"} {
			if strings.Contains(h.message(name), "more than any node can have") {
				said++
			}
		}
		return said == 5 && h.bound() >= 1
	})
	if n := h.bound(); n != 1 {
		t.Errorf("%d pods are bound, want the plain one alone", n)
	}
	if claims := h.launcher.claims(); len(claims) != 0 {
		t.Errorf("nodes are launched: %v", claims)
	}
}

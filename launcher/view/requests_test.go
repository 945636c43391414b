package view

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Sums of plain pods are those of Kubernetes' own function, which counts the others.
func TestRequestsOf(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	with := func(lists ...corev1.ResourceList) []corev1.Container {
		var out []corev1.Container
		for _, l := range lists {
			out = append(out, corev1.Container{Resources: corev1.ResourceRequirements{Requests: l}})
		}
		return out
	}
	sum := summer{}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want requests
	}{
		"none":       {corev1.PodSpec{Containers: with(nil)}, requests{}},
		"two":        {corev1.PodSpec{Containers: with(list("100m", "1Mi"), list("1", "2Mi"))}, requests{1100, 3 << 20}},
		"init":       {corev1.PodSpec{Containers: with(list("100m", "5Mi")), InitContainers: with(list("2", "1Mi"))}, requests{2000, 5 << 20}},
		"overhead":   {corev1.PodSpec{Containers: with(list("1", "1Mi")), Overhead: list("250m", "1Mi")}, requests{1250, 2 << 20}},
		"of the pod": {corev1.PodSpec{Containers: with(list("1", "1Mi")), Resources: &corev1.ResourceRequirements{Requests: list("3", "4Mi")}}, requests{3000, 4 << 20}},
	} {
		if got := sum.requestsOf(&corev1.Pod{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

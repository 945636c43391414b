package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// What a pod requests is what the scheduler counts, also where the sum over its containers is not taken.
func TestPodRequestsAreTheSchedulers(t *testing.T) {
	list := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	one := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{}
		p.Spec.Containers = []corev1.Container{{Name: "main", Resources: list("2")}}
		change(p)
		return p
	}
	for name, pod := range map[string]*corev1.Pod{
		"one container": one(func(*corev1.Pod) {}),
		"no requests":   one(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }),
		"two": one(func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Resources: list("1")})
		}),
		"init": one(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: list("3")}} }),
		"overhead": one(func(p *corev1.Pod) {
			p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
		}),
		"pod level": one(func(p *corev1.Pod) { r := list("4"); p.Spec.Resources = &r }),
		"resized": one(func(p *corev1.Pod) {
			r := list("6")
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Resources: &r}}
		}),
	} {
		want := podresource.PodRequests(pod.DeepCopy(), podresource.PodResourcesOptions{UseStatusResources: true})
		if got := plan.PodRequests(pod); !equality.Semantic.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

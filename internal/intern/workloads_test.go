package intern_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/internal/intern"
)

// Workloads lose their templates where none is read, and nothing but managedFields elsewhere. All else of them is as it was.
func TestTemplatesOfWorkloads(t *testing.T) {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: podOf(t, 1).Spec}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: selector, Template: template}}
	set := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template}}
	job := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: new(int32(2)), Completions: new(int32(3)), Selector: selector, Template: template}}
	statefulSet := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template}}
	for _, c := range []struct {
		object client.Object
		of     func(client.Object) *corev1.PodTemplateSpec
		keeps  bool
	}{
		{deployment, func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template }, false},
		{set, func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.ReplicaSet).Spec.Template }, false},
		{job, func(o client.Object) *corev1.PodTemplateSpec { return &o.(*batchv1.Job).Spec.Template }, false},
		{statefulSet, func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.StatefulSet).Spec.Template }, true},
	} {
		c.object.SetName("web")
		want, whole := c.object.DeepCopyObject().(client.Object), c.object.DeepCopyObject().(client.Object)
		whole.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		if got := transformed(t, intern.New(), whole); !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%T became %+v, want %+v", whole, got, want)
		}
		whole.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		if !c.keeps {
			*c.of(want) = corev1.PodTemplateSpec{}
		}
		if got, err := intern.New().WithoutTemplates(whole); err != nil || !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%T without its template became %+v, want %+v, %v", whole, got, want, err)
		}
	}
	pod := podOf(t, 1)
	if got, err := intern.New().WithoutTemplates(pod); got != pod || err != nil || pod.ManagedFields != nil || len(pod.Spec.Containers) == 0 {
		t.Errorf("a pod became %+v, %v", got, err)
	}
}

package launcher

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The cache has the pod templates of workloads where CapacityBuffers may name them, and not else.
func TestTemplatesAreKeptForCapacityBuffers(t *testing.T) {
	for _, on := range []bool{false, true} {
		template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
		got, err := slim(Gates{CapacityBuffer: on})(&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Template: template}})
		set, ok := got.(*appsv1.ReplicaSet)
		if err != nil || !ok || *set.Spec.Replicas != 1 || (len(set.Spec.Template.Spec.Containers) == 1) != on {
			t.Errorf("gate CapacityBuffer %t: %+v, %v", on, got, err)
		}
	}
}

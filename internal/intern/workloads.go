package intern

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// WithoutTemplates is Transform, and leaves out the pod templates of Deployments, ReplicaSets and Jobs, which are most of what these weigh: a Deployment
// keeps ten ReplicaSets without pods (the default of its revisionHistoryLimit). It is for a process that reads no template of theirs.
func (o *Objects) WithoutTemplates(obj any) (any, error) {
	switch of := obj.(type) {
	case *appsv1.Deployment:
		of.Spec.Template = corev1.PodTemplateSpec{}
	case *appsv1.ReplicaSet:
		of.Spec.Template = corev1.PodTemplateSpec{}
	case *batchv1.Job:
		of.Spec.Template = corev1.PodTemplateSpec{}
	}
	return o.Transform(obj)
}

// Package workload returns what a pod belongs to, as its users know it. It is pure.
package workload

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of returns the kind and the name of the pod's controller, or of the Deployment of a ReplicaSet: the Deployment controller appends the value of
// the label pod-template-hash to its name. Both are empty for a pod without a controller.
func Of(pod *corev1.Pod) (kind, name string) {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return "", ""
	}
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if deployment, ok := strings.CutSuffix(controller.Name, "-"+hash); ok && hash != "" && controller.Kind == "ReplicaSet" {
		return "Deployment", deployment
	}
	return controller.Kind, controller.Name
}

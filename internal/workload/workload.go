// Package workload returns what a pod belongs to, as its users know it. It is pure.
package workload

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/clip"
)

// Kubernetes' own bounds of a kind and a name, in bytes. The API server does not hold a pod's owner references to them.
const mostKind, mostName = 63, 253

// Of returns the kind and the name of the pod's controller, or of the Deployment of a ReplicaSet: the Deployment controller appends the value of
// the label pod-template-hash to its name. Both are empty for a pod without a controller, and no longer than Kubernetes
// allows a kind and a name to be.
func Of(pod *corev1.Pod) (kind, name string) {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return "", ""
	}
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if deployment, ok := strings.CutSuffix(controller.Name, "-"+hash); ok && hash != "" && controller.Kind == "ReplicaSet" {
		return "Deployment", clip.Bytes(deployment, mostName)
	}
	return clip.Bytes(controller.Kind, mostKind), clip.Bytes(controller.Name, mostName)
}

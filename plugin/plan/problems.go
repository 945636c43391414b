package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// unsupported is why no node is launched for the pod, whatever its shape; nil where one may be.
func unsupported(pod *corev1.Pod) *Reason {
	if claims := pod.Spec.ResourceClaims; len(claims) > 0 {
		return &Reason{Code: "NotSupported", Message: fmt.Sprintf("asks for the ResourceClaim %q: which devices a new node will have is known only once its DRA driver runs, so no node is launched for it", claims[0].Name)}
	}
	for _, name := range sortedNames(PodRequests(pod)) {
		if q := PodRequests(pod)[name]; q.Sign() < 0 {
			return &Reason{Code: "InvalidPod", Message: fmt.Sprintf("requests %s of %s, less than nothing", q.String(), name)}
		}
	}
	return nil
}

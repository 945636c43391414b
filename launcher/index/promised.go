package index

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Promise is a pod that is promised to a NodeClaim.
type Promise struct {
	// Ref is the promise. It has no namespace and name if the pod is gone: the NodeClaim has UIDs alone.
	Ref catalog.PodRef
	// Pod is the pod as the cache has it, which is not to be changed; nil if it is gone.
	Pod *corev1.Pod
}

// Promised returns promises with their pods, as the cache shows them. refs are a NodeClaim's, from record.Pods.
func Promised(ctx context.Context, pods Pods, refs []catalog.PodRef) ([]Promise, error) {
	out := make([]Promise, 0, len(refs))
	for _, ref := range refs {
		pod, err := pods.Of(ctx, ref.UID)
		if err != nil {
			return nil, err
		}
		if pod != nil {
			ref.Namespace, ref.Name = pod.Namespace, pod.Name
		}
		out = append(out, Promise{Ref: ref, Pod: pod})
	}
	return out, nil
}

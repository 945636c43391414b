package index

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
func Promised(ctx context.Context, cache client.Reader, refs []catalog.PodRef) ([]Promise, error) {
	out := make([]Promise, 0, len(refs))
	for _, ref := range refs {
		pod, err := PodOf(ctx, cache, ref.UID)
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

// PodOf returns the pod of a UID as the cache has it, nil if it has none. The pod is shared: copy it before a change.
func PodOf(ctx context.Context, cache client.Reader, uid string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := cache.List(ctx, &pods, client.MatchingFields{PodUID: uid}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the pod of UID %s: %w", uid, err)
	}
	if len(pods.Items) == 0 {
		return nil, nil
	}
	return &pods.Items[0], nil
}

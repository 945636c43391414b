package terminate_test

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// kubelet ends terminating pods after their time, and lets the attach-detach controller detach volumes of deleted pods.
func (w *world) kubelet(ctx context.Context) {
	pods := &corev1.PodList{}
	_ = w.api.List(ctx, pods)
	there := map[string]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil && time.Since(pod.DeletionTimestamp.Time) >= w.exit[pod.Name] {
			pod.Finalizers = nil
			_ = w.api.Update(ctx, pod)
			w.log("pod %s exited", pod.Name)
			continue
		}
		there[pod.Name] = true
	}
	list := &storagev1.VolumeAttachmentList{}
	_ = w.api.List(ctx, list)
	for i := range list.Items {
		va := &list.Items[i]
		if pod := va.Labels["pod"]; !there[pod] {
			if w.detach[va.Name]--; w.detach[va.Name] < 0 {
				_ = w.api.Delete(ctx, va)
			}
		}
	}
}

func removeKubelet(ctx context.Context, c client.Client, pod *corev1.Pod) {
	current := &corev1.Pod{}
	if c.Get(ctx, client.ObjectKeyFromObject(pod), current) == nil && len(current.Finalizers) > 0 {
		current.Finalizers = nil
		_ = c.Update(ctx, current)
	}
}

func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-node-lease", Name: nodeName, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
	}}
}

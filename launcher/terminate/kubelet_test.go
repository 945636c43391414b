package terminate_test

import (
	"context"
	"time"

	"github.com/cockroachdb/datadriven"
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

func (w *world) addVolume(ctx context.Context, d *datadriven.TestData) {
	name, podName := d.CmdArgs[0].Key, d.CmdArgs[1].Vals[0]
	w.detach[name] = w.number(d.CmdArgs[2].Vals[0])
	pv := "pv-" + name
	mode := corev1.ReadWriteOnce
	if len(d.CmdArgs) > 3 && d.CmdArgs[3].Key == "shared" {
		mode = corev1.ReadWriteMany
	}
	if d.HasArg("inline") {
		w.create(ctx, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod": podName}},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: nodeName, Source: storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}}},
		})
		return
	}
	w.create(
		ctx,
		&storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod": podName}},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: nodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
		},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pvc-" + name},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: pv, AccessModes: []corev1.PersistentVolumeAccessMode{mode}},
		},
	)
	pod := &corev1.Pod{}
	if err := w.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: podName}, pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc-" + name},
	}})
	if err := w.api.Update(ctx, pod); err != nil {
		w.t.Fatal(err)
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

package plugin_test

import (
	"bytes"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubernetes' opportunistic batching tries a pod on the node that was the second best for one that is alike, where every plugin of the profile
// signs pods. One that cannot turns it off for the whole profile. The profile that slipway ships keeps it. Pods
// that a Service or a ReplicaSet selects have no signature, as they are spread by default.
func TestBatchingOfAlikePodsStaysOn(t *testing.T) {
	t.Parallel()
	const pods = 12
	var objects []runtime.Object
	for i := range pods + 4 {
		objects = append(objects, newNode(fmt.Sprintf("one-%d", i), "1", nil))
	}
	objects = append(objects, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "spread"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "spread"}},
	})
	h := start(t, harnessOptions{objects: objects})
	// Pods that come before the Services are known have no signature.
	for i := range pods {
		h.pod(fmt.Sprintf("job-%d", i), func(p *corev1.Pod) {
			p.Spec.Containers = newPod("x", "600m", "128Mi").Spec.Containers
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, batchv1.SchemeGroupVersion.WithKind("Job"))}
		})
	}
	h.eventually("all pods to be bound", func() bool { return h.bound() == pods })
	for name, fw := range h.sched.Profiles {
		sign := func(tweak func(*corev1.Pod)) []byte {
			pod := newPod("x", "600m", "128Mi")
			tweak(pod)
			return fw.SignPod(t.Context(), pod)
		}
		plain, high := sign(func(*corev1.Pod) {}), sign(func(p *corev1.Pod) { p.Spec.Priority = new(int32(7)) })
		if plain == nil || !bytes.Equal(plain, sign(func(p *corev1.Pod) { p.Name = "y" })) {
			t.Errorf("profile %s: signature %q of a pod, and another one of its twin", name, plain)
		}
		if bytes.Equal(plain, high) {
			t.Errorf("profile %s: pods of two priorities have one signature: room may be kept for the higher", name)
		}
		if sign(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "spread"} }) != nil {
			t.Errorf("profile %s: a pod of a Service has a signature: it is spread over zones, which changes with each pod", name)
		}
		if sign(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		}) != nil {
			t.Errorf("profile %s: a pod of a ReplicaSet that is not known yet has a signature", name)
		}
		counts, ok := fw.(interface{ TotalBatchedPods() int64 })
		if !ok {
			t.Fatalf("profile %s: a framework that counts no batched pods", name)
		}
		if n := counts.TotalBatchedPods(); n == 0 {
			t.Errorf("profile %s: none of %d pods that are alike was placed by another's result", name, pods)
		} else {
			t.Logf("profile %s: %d of %d pods were placed by another's result", name, n, pods)
		}
	}
}

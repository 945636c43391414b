package plugin_test

import (
	"bytes"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// Kubernetes' opportunistic batching tries a pod on the node that was the second best for one that is alike, where every plugin of the profile
// signs pods. One that cannot turns it off for the whole profile. The profile that slipway ships keeps it. As in Kubernetes' own profile,
// pods with default constraints of topology spread have no signature, so the test has none.
func TestBatchingOfAlikePodsStaysOn(t *testing.T) {
	t.Parallel()
	const pods = 12
	var objects []runtime.Object
	for i := range pods + 4 {
		objects = append(objects, newNode(fmt.Sprintf("one-%d", i), "1", nil))
	}
	for i := range pods {
		pod := newPod(fmt.Sprintf("web-%d", i), "600m", "128Mi")
		ownedBy("web")(pod)
		objects = append(objects, pod)
	}
	h := start(t, harnessOptions{objects: objects, profile: func(p *config.KubeSchedulerProfile) {
		for _, c := range p.PluginConfig {
			if spread, ok := c.Args.(*config.PodTopologySpreadArgs); ok {
				spread.DefaultingType, spread.DefaultConstraints = config.ListDefaulting, nil
			}
		}
	}})
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

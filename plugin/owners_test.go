package plugin_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Owners that do not exist hold up their own pods alone: while such pods keep coming in one namespace, a pod of another one and a
// Deployment whose owner they name too are launched for at once.
func TestFakedOwnersHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)}, args: []string{"batchIdle: 10m", "batchMax: 20m"},
	})
	faked := func(i int) {
		pod := newPod(fmt.Sprintf("faked-%d", i), "500m", "512Mi")
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Foo", Name: "foo", UID: types.UID(fmt.Sprintf("foo-%d", i)), Controller: new(true)}
		if i%2 == 1 {
			ref.APIVersion, ref.Kind, ref.Name, ref.UID = "apps/v1", "ReplicaSet", "web", "rs-web"
		}
		pod.Namespace, pod.OwnerReferences = "tenant", []metav1.OwnerReference{ref}
		if _, err := h.client.CoreV1().Pods("tenant").Create(h.ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	done, sent := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-done:
				sent <- n
				return
			case <-time.After(20 * time.Millisecond):
				// The scheduler of a busy machine keeps up: the batch closes when it has tried all pods.
				if len(h.sched.SchedulingQueue.PodsInActiveQ()) == 0 {
					faked(n)
				}
			}
		}
	}()
	h.deployment("web", 3)
	h.pod("alone", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "alone"} })
	h.eventually("launches for the pods of others", func() bool { return len(h.launcher.podNames()) >= 4 })
	close(done)
	n := <-sent
	for name := range h.launcher.podNames() {
		if _, err := h.client.CoreV1().Pods("default").Get(h.ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("pod %s of %d with faked owners was launched for before their window ended", name, n)
		}
	}
}

package kubelets_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// What simulated kubelets play is what kubelets do: a preStop hook runs within the grace period, the pod is ready meanwhile, and a container
// whose hook takes longer has two seconds more.
func TestHooksAndGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "hooks")
	w.pool("hooks", nil)
	hooked := func(grace int64, stops time.Duration, hook *corev1.LifecycleHandler) corev1.PodSpec {
		return w.spec("500m", stops, func(s *corev1.PodSpec) {
			s.TerminationGracePeriodSeconds = &grace
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: hook}
		})
	}
	exec := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 8"}}}
	for name, spec := range map[string]corev1.PodSpec{
		"patient": hooked(60, 0, exec),
		"asleep":  hooked(60, 0, &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 8}}),
		"cut":     hooked(4, time.Hour, exec),
	} {
		w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}, Spec: spec})
	}
	w.await(t, "the pods to run", func() bool { return w.running("") == 3 })
	for _, p := range w.pods("") {
		if err := w.client.Delete(t.Context(), p.Object); err != nil {
			t.Fatal(err)
		}
	}
	w.await(t, "the pods to be gone", func() bool {
		return !slices.ContainsFunc(w.pods(""), func(p observe.Pod) bool { return !p.Deleted.Seen() })
	})
	for _, p := range w.pods("") {
		least, code := 8*time.Second, int32(0)
		if p.Object.Name == "cut" {
			least, code = 6*time.Second, 137
		}
		if took := p.Deleted.At.Sub(p.Terminating.At); took < least-500*time.Millisecond {
			t.Errorf("pod %s was gone after %s, want %s at least", p.Object.Name, took, least)
		}
		end := p.Object.Status.ContainerStatuses[0].State.Terminated
		if end == nil || end.ExitCode != code {
			t.Errorf("the container of pod %s ended with %+v, want exit code %d", p.Object.Name, end, code)
		}
	}
}

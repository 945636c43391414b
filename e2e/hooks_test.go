package e2e_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// A node is drained at the pace of its pods: their preStop hooks run within their grace periods, they are ready meanwhile, and SIGKILL ends
// those that take longer.
func TestHooksRunWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "hooks")
	w.pool("hooks", nil)
	hooked := func(grace int64, seconds string) corev1.PodSpec {
		return w.podSpec("500m", "512Mi", func(s *corev1.PodSpec) {
			s.TerminationGracePeriodSeconds = &grace
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
				Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "sleep " + seconds}},
			}}
		})
	}
	w.deployment("patient", 1, hooked(120, "50"))
	w.deployment("cut", 1, hooked(60, "3000"))
	w.awaitRunning(2)
	first := w.pods()
	for _, claim := range w.claimsOf("hooks") {
		if err := w.client.Delete(t.Context(), claim.Object); err != nil {
			t.Fatal(err)
		}
	}
	w.await(t, "the pods to be gone", func() bool {
		for _, p := range first {
			if !w.pod(p).Deleted.Seen() {
				return false
			}
		}
		return true
	})
	for _, p := range first {
		p = w.pod(p)
		// 50 of 120 s, and 60 s, at the sandbox's speed.
		least := 50 * time.Second / speed
		cut := p.Object.Labels["app"] == "cut"
		if cut {
			least = 60 * time.Second / speed
		}
		// What is observed may come late, one more than the other.
		if took := p.Deleted.At.Sub(p.Terminating.At); took < least-time.Second {
			t.Errorf("pod %s was gone after %s, its hook and its grace period last %s", p.Object.Name, took, least)
		}
		if end := p.Object.Status.ContainerStatuses[0].State.Terminated; !cut && (end == nil || end.ExitCode != 0) {
			t.Errorf("container of pod %s, which had the time it needed: %+v", p.Object.Name, end)
		}
	}
}

// pod returns a pod's history as it is now.
func (w *world) pod(p observe.Pod) observe.Pod {
	for _, now := range w.pods() {
		if now.Object.UID == p.Object.UID {
			return now
		}
	}
	return p
}

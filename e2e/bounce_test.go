package e2e_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// latest is how late a kubelet's report may be on a machine however busy. Writes of pods that were no more once delayed it by minutes.
const latest = 45 * time.Second

// A Deployment that is scaled to nothing and back, again and again. Its pods have no grace period, so that the API server removes them at
// once, whatever their kubelets are about to write. The kubelets report those that come after them without delay.
func TestBounce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bounce")
	w.pool("bounce", nil)
	d := w.deployment("web", 60, w.podSpec("250m", "256Mi", func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(0)) }))
	w.awaitRunning(60)
	for range 3 {
		w.scale(d, 0)
		w.await(t, "the pods to be gone", func() bool { return w.running() == 0 })
		w.scale(d, 60)
		w.await(t, "some of the new pods to run", func() bool { return w.running() > 5 })
	}
	w.awaitRunning(60)
	for _, p := range w.pods() {
		if late, ok := reportedAfter(p.Object, p.Running.At); ok && p.Running.Seen() && late > latest {
			t.Errorf("pod %s was reported as Running %s after its container had started", p.Object.Name, late)
		}
	}
}

// reportedAfter returns how long after the start of its last container a pod was seen running.
func reportedAfter(p *corev1.Pod, seen time.Time) (late time.Duration, ok bool) {
	var started time.Time
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running == nil {
			return 0, false
		}
		if c.State.Running.StartedAt.After(started) {
			started = c.State.Running.StartedAt.Time
		}
	}
	return seen.Sub(started), !started.IsZero()
}

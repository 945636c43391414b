package e2e_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// latest is how late a kubelet's report may be on a machine however busy. Writes of pods that were no more once delayed it by minutes.
const latest = 45 * time.Second

// bounceSize returns the size of the Deployment and how often it is scaled to nothing and back: `make bounce` has larger ones.
func bounceSize(t *testing.T) (pods, times int) {
	t.Helper()
	pods, times = 60, 3
	for name, into := range map[string]*int{"SLIPWAY_BOUNCED": &pods, "SLIPWAY_BOUNCES": &times} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				t.Fatalf("%s=%q: a number is expected", name, text)
			}
			*into = n
		}
	}
	return pods, times
}

// A Deployment that is scaled to nothing and back, again and again. Its pods have no grace period, so that the API server removes them at
// once, whatever their kubelets are about to write. The kubelets report those that come after them without delay.
func TestBounce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bounce")
	w.pool("bounce", nil)
	n, bounces := bounceSize(t)
	d := w.deployment("web", int32(n), w.podSpec("250m", "256Mi", func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(0)) }))
	w.awaitRunning(n)
	for i := range bounces {
		begun := time.Now()
		w.scale(d, 0)
		w.await(t, "the pods to be gone", func() bool { return w.running() == 0 })
		gone := time.Now()
		w.scale(d, n)
		w.await(t, "some of the new pods to run", func() bool { return w.running() > n/12 })
		if n > 60 { // The large ones are about how long it takes.
			w.awaitRunning(n)
		}
		t.Logf("bounce %d: gone after %.1f s, %d of %d run %.1f s later, on %d nodes", i+1, gone.Sub(begun).Seconds(), w.running(), n,
			time.Since(gone).Seconds(), len(w.claimsOf("bounce")))
	}
	w.awaitRunning(n)
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

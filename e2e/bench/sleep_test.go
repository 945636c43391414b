package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/internal/window"
)

// sleepers is how many pods a namespace has that sleeps.
const sleepers = 500

// A namespace falls asleep and wakes by the clock, at EC2's speed on light machines: seconds until its pods wait and its nodes are gone, and seconds from the
// end of the sleep until all of its pods run.
func BenchmarkSleep(b *testing.B) {
	for b.Loop() {
		b.Log(machine())
		l := newLab(b, sandbox.Config{Speed: 1, Machines: sandbox.Light})
		l.pool("night", "8", "16")
		empty := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"disruption":{"consolidateAfter":"1s"}}}`))
		if err := l.API.Patch(b.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "night"}}, empty); err != nil {
			b.Fatal(err)
		}
		l.deployment("web", "night", sleepers, podSpec("500m", "1Gi"))
		run := func() int { return len(slices.DeleteFunc(l.pods("web"), notRunning)) }
		l.Await("running pods", func() bool { return run() == sleepers })
		start := time.Now()
		l.sleep(b, `- {schedule: "@daily", duration: 48h}`)
		l.Await("pods that wait", func() bool { return run() == 0 && len(l.pods("web")) == sleepers })
		b.ReportMetric(time.Since(start).Seconds(), "asleep-s")
		l.Await("nodes to go", func() bool { return l.claimsWith(karpv1.ConditionTypeLaunched) == 0 })
		b.ReportMetric(time.Since(start).Seconds(), "nodes-gone-s")
		end := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
		open := end.Add(-time.Hour)
		l.sleep(b, fmt.Sprintf(`- {schedule: "%d %d * * *", duration: 1h}`, open.Minute(), open.Hour()))
		l.Await("pods that run again", func() bool { return run() == sleepers })
		var first, last time.Time
		for _, p := range l.pods("web") {
			if at := p.Running.At; first.IsZero() || at.Before(first) {
				first = at
			}
			if p.Running.At.After(last) {
				last = p.Running.At
			}
		}
		b.ReportMetric(first.Sub(end).Seconds(), "first-after-end-s")
		b.ReportMetric(last.Sub(end).Seconds(), "last-after-end-s")
	}
}

func notRunning(p observe.Pod) bool {
	return p.Terminating.Seen() || p.Object.Status.Phase != corev1.PodRunning
}

// sleep sets the windows in which the benchmark's namespace sleeps.
func (l *lab) sleep(b *testing.B, text string) {
	b.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, window.SleepAnnotation, text))
	if err := l.API.Patch(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, patch); err != nil {
		b.Fatal(err)
	}
}

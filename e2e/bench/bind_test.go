package bench_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// From a node's Ready=True to its pods running, by who binds them and when: the launcher at the moment that is best for each
// pod, the launcher before the kubelet boots, the scheduler. The machines keep EC2's time: a simulated kubelet that is
// hurried would retry sooner too.
func BenchmarkReadyToRunning(b *testing.B) {
	for _, bindAt := range []string{"auto", "launch", "never"} {
		b.Run("bind-at-"+bindAt, func(b *testing.B) {
			b.Log(machine())
			l := newLab(b, sandbox.Config{LauncherArgs: []string{"--bind-at=" + bindAt}})
			// Machines of 4 vCPUs have 3.92 to give.
			l.pool("bench", "4")
			for b.Loop() {
				l.wave("small", 60, 6, "380m")
				l.wave("large", 2000, 100, "190m")
			}
			for _, name := range []string{sandbox.Scheduler, sandbox.Launcher} {
				b.Logf("%s: %s after all this", name, memory(b, l.PID(name)))
			}
		})
	}
}

// wave brings pods onto new nodes and measures how soon they run.
func (l *lab) wave(name string, pods int32, nodes int, cpu string) {
	l.b.Helper()
	scheduler, launcher := cpuSeconds(l.b, l.PID(sandbox.Scheduler)), cpuSeconds(l.b, l.PID(sandbox.Launcher))
	l.deployment(name, "bench", pods, podSpec(cpu, "64Mi"))
	l.Await(fmt.Sprintf("%d running pods", pods), func() bool {
		running := 0
		for _, p := range l.pods(name) {
			if p.Object.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == int(pods)
	})
	scheduler, launcher = cpuSeconds(l.b, l.PID(sandbox.Scheduler))-scheduler, cpuSeconds(l.b, l.PID(sandbox.Launcher))-launcher
	ready := map[string]time.Time{}
	for _, n := range l.Recorder.Nodes() {
		ready[n.Object.Name] = n.Ready.At
	}
	var toRunning, toBound []float64
	used := map[string]bool{}
	var first, lastReady time.Time
	for _, p := range l.pods(name) {
		at := ready[p.Object.Spec.NodeName]
		used[p.Object.Spec.NodeName] = true
		toRunning = append(toRunning, p.Running.At.Sub(at).Seconds())
		toBound = append(toBound, p.Bound.At.Sub(at).Seconds())
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(lastReady) {
			lastReady = at
		}
	}
	if len(used) != nodes {
		l.b.Errorf("%d nodes were launched for %s, want %d", len(used), name, nodes)
	}
	all := last(l.pods(name), func(p observe.Pod) observe.Moment { return p.Running })
	running, bound := observe.Distribute(toRunning), observe.Distribute(toBound)
	l.b.ReportMetric(running.P50, name+"-p50-s")
	l.b.ReportMetric(running.P99, name+"-p99-s")
	l.b.Logf("%s: %d pods on %d nodes that became Ready within %.1f s; Ready to bound p50 %.2f s, p99 %.2f s; Ready to running p50 %.2f s, p99 %.2f s; first node Ready to all running %.1f s; CPU of the scheduler %.1f s, of the launcher %.1f s",
		name, pods, len(used), lastReady.Sub(first).Seconds(), bound.P50, bound.P99, running.P50, running.P99, all.Sub(first).Seconds(), scheduler, launcher)
}

package bench_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// promised is the number of pods that new nodes are launched for, promisedSpeed divides the delays of their machines.
const (
	promised      = 10_000
	promisedSpeed = 10
)

// 10,000 pods that were promised to new nodes: how many are bound a second while a node is Ready and a pod of it is not bound.
func BenchmarkPromised(b *testing.B) {
	b.Log(machine())
	l := newLab(b, sandbox.Config{Speed: promisedSpeed, Machines: sandbox.Light})
	l.pool("promised", "16")
	for b.Loop() {
		l.deployment("promised", "promised", promised, podSpec("150m", "64Mi"))
		l.Await("a bound pod", func() bool { return bound(l.pods("promised")) > 0 })
		begin, spent := time.Now(), l.spent(b)
		l.Await(fmt.Sprintf("%d bound pods", promised), func() bool { return bound(l.pods("promised")) == promised })
		spent = l.spent(b).since(spent)
		span := time.Since(begin)
		waits := l.waitsOf("promised")
		nodes := map[string]bool{}
		var late []float64
		for _, w := range waits {
			nodes[w.node] = true
			late = append(late, w.to.Sub(w.from).Seconds())
		}
		backlog, most := busy(waits), densest(waits)
		ready := observe.Distribute(late)
		b.ReportMetric(float64(len(waits))/backlog.Seconds(), "bound/s")
		b.ReportMetric(float64(most), "most-bound/s")
		b.Logf("%d pods on %d nodes, %d of them bound after their node was Ready; a Ready node had pods to bind for %.1f s: %.0f a second, %d in the busiest second; Ready to bound p50 %.2f s, p99 %.2f s; from the first bound pod to the last %.1f s, CPU ms per pod: scheduler %.2f, launcher %.2f, API server and machines %.2f",
			promised, len(nodes), len(waits), backlog.Seconds(), float64(len(waits))/backlog.Seconds(), most, ready.P50, ready.P99,
			span.Seconds(), perPod(spent.scheduler), perPod(spent.launcher), perPod(spent.rest))
	}
}

// cpu is the CPU time of processes, in seconds. The rest is the process of etcd, the API server, the controllers, AWS and the machines, which is this one.
type cpu struct{ scheduler, launcher, rest float64 }

func (c cpu) since(before cpu) cpu {
	return cpu{scheduler: c.scheduler - before.scheduler, launcher: c.launcher - before.launcher, rest: c.rest - before.rest}
}

func (l *lab) spent(b *testing.B) cpu {
	b.Helper()
	return cpu{scheduler: cpuSeconds(b, l.PID(sandbox.Scheduler)), launcher: cpuSeconds(b, l.PID(sandbox.Launcher)), rest: cpuSeconds(b, os.Getpid())}
}

// perPod is a pod's share of the seconds, in milliseconds.
func perPod(seconds float64) float64 { return seconds * 1000 / promised }

func bound(pods []observe.Pod) int {
	n := 0
	for _, p := range pods {
		if p.Bound.Seen() {
			n++
		}
	}
	return n
}

// wait is the time of a pod from when its node was Ready, and it existed, until it was bound.
type wait struct {
	node     string
	from, to time.Time
}

// waitsOf lists the waits of a Deployment's bound pods. A pod that was bound before its node was Ready has none.
func (l *lab) waitsOf(deployment string) []wait {
	ready := map[string]time.Time{}
	for _, n := range l.Recorder.Nodes() {
		ready[n.Object.Name] = n.Ready.At
	}
	var out []wait
	for _, p := range l.pods(deployment) {
		w := wait{node: p.Object.Spec.NodeName, from: ready[p.Object.Spec.NodeName], to: p.Bound.At}
		if p.Created.At.After(w.from) {
			w.from = p.Created.At
		}
		if w.to.After(w.from) {
			out = append(out, w)
		}
	}
	return out
}

// busy is the time that at least one of the waits covers.
func busy(waits []wait) time.Duration {
	slices.SortFunc(waits, func(a, b wait) int { return a.from.Compare(b.from) })
	var total time.Duration
	var until time.Time
	for _, w := range waits {
		from := w.from
		if until.After(from) {
			from = until
		}
		if w.to.After(from) {
			total += w.to.Sub(from)
			until = w.to
		}
	}
	return total
}

// densest is the largest number of waits that end within one second.
func densest(waits []wait) int {
	ends := make([]time.Time, len(waits))
	for i, w := range waits {
		ends[i] = w.to
	}
	slices.SortFunc(ends, time.Time.Compare)
	most, first := 0, 0
	for i, end := range ends {
		for end.Sub(ends[first]) > time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

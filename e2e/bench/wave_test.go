package bench_test

import (
	"fmt"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// wave is how many nodes come at once, and waveSpeed divides the delays of their machines.
const (
	wave      = 100
	waveSpeed = 10
)

// A wave of nodes with one pod each, from the Deployment to the last pod bound: seconds, and the CPU that both processes and the
// API server's spend on it.
func BenchmarkWave(b *testing.B) {
	for b.Loop() {
		waveOf(b, wave)
	}
}

func waveOf(b *testing.B, n int) {
	b.Helper()
	b.Log(machine())
	l := newLab(b, sandbox.Config{Speed: waveSpeed})
	l.pool("wave", "2")
	processes := []string{sandbox.Launcher, sandbox.Scheduler}
	before := map[string]float64{}
	for _, name := range processes {
		before[name] = cpuSeconds(b, l.PID(name))
	}
	start := time.Now()
	l.deployment("wave", "wave", int32(n), podSpec("1500m", "1Gi"))
	stages := []struct {
		name string
		done func() int
	}{
		{"launched", func() int { return l.claimsWith(karpv1.ConditionTypeLaunched) }},
		{"registered", func() int { return l.claimsWith(karpv1.ConditionTypeRegistered) }},
		{"bound", func() int {
			bound := 0
			for _, p := range l.pods("wave") {
				if p.Bound.Seen() {
					bound++
				}
			}
			return bound
		}},
	}
	for _, stage := range stages {
		l.Await(fmt.Sprintf("%d %s", n, stage.name), func() bool { return stage.done() >= n })
		took := time.Since(start).Seconds()
		b.ReportMetric(took, stage.name+"-s")
		spent := ""
		for _, name := range processes {
			spent += fmt.Sprintf(", %s %.2f CPU-s", name, cpuSeconds(b, l.PID(name))-before[name])
		}
		b.Logf("all %s after %.1f s%s", stage.name, took, spent)
	}
	for _, name := range processes {
		b.ReportMetric(cpuSeconds(b, l.PID(name))-before[name], name+"-cpu-s")
	}
	last := last(l.pods("wave"), func(p observe.Pod) observe.Moment { return p.Bound })
	b.Logf("%d nodes; the last pod bound %.1f s after the Deployment", len(l.claims(l.pods("wave"))), last.Sub(start).Seconds())
}

// claimsWith counts the NodeClaims whose condition is True.
func (l *lab) claimsWith(condition string) int {
	n := 0
	for _, c := range l.Recorder.Claims() {
		if !c.Deleted.Seen() && c.Object.StatusConditions().Get(condition).IsTrue() {
			n++
		}
	}
	return n
}

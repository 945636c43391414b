package karpenter_test

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/karpenter/beside"
	"github.com/slipway-k8s/slipway/e2e/observe"
)

const (
	// phasePatience is how long a phase may take: a drift of all nodes under a budget takes many turns.
	phasePatience = 40 * time.Minute
	// sampling is how often the bill and the pods are looked at.
	sampling = time.Second
)

// observed is what a cluster did since a moment.
type observed struct {
	c      *cluster
	begun  time.Time
	series beside.Series
	// cpu is what both processes had spent before, in seconds.
	cpu float64
}

func begin(c *cluster) *observed {
	o := &observed{c: c, begun: time.Now(), cpu: c.cpu(c.t)}
	o.sample()
	return o
}

// until waits until done says so, and samples meanwhile.
func (o *observed) until(what string, done func() bool) {
	o.c.t.Helper()
	next := time.Now().Add(sampling)
	o.c.awaitWithin(phasePatience, what, func() bool {
		if time.Now().Before(next) {
			return false // It is asked at every change, of which there are thousands.
		}
		next = time.Now().Add(sampling)
		o.sample()
		return done()
	})
}

func (o *observed) sample() {
	ready := 0
	for _, p := range o.c.mine() {
		if p.Ready.Seen() && !p.Terminating.Seen() && !p.Failed.Seen() && !p.Deleted.Seen() {
			ready++
		}
	}
	o.series = append(o.series, beside.Sample{At: time.Since(o.begun), USD: o.c.bill(), Ready: ready})
}

// lastRunning is when the last of the pods that stay began to run, in seconds.
func (o *observed) lastRunning() float64 {
	last := 0.0
	for _, p := range o.c.mine() {
		if !p.Terminating.Seen() && !p.Deleted.Seen() {
			last = max(last, p.Running.At.Sub(o.begun).Seconds())
		}
	}
	return last
}

// disturbed is what the pods saw of it: evictions, those that ended with their node, and how many were Ready, of so many that were wanted at
// first. The pods that a scale-in ends are neither evicted nor lost.
func (o *observed) disturbed(want int) []beside.Figure {
	pods := o.c.mine()
	evicted, lost := 0, 0
	for _, p := range pods {
		if p.Terminating.Seen() && p.Terminating.At.After(o.begun) {
			switch reason := targeted(p); reason {
			case "":
			case corev1.PodReasonTerminationByKubelet, "DeletionByPodGC", "DeletionByTaintManager":
				lost++
			default:
				evicted++
			}
		}
	}
	return []beside.Figure{
		beside.Count("evictions", evicted), beside.Count("lost with a node", lost),
		beside.Count(fewestReady, observe.FewestReady(pods, want)),
		{Name: "missing", Unit: "pod s", Value: o.series.Missing(o.series[len(o.series)-1].Ready)},
	}
}

// targeted is why a pod was ended by something that is not its controller, empty where it was not.
func targeted(p observe.Pod) string {
	for _, condition := range p.Object.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return condition.Reason
		}
	}
	return ""
}

// spent is what both processes have used.
func (o *observed) spent() []beside.Figure {
	return []beside.Figure{
		{Name: "CPU s", Digits: 1, Value: o.c.cpu(o.c.t) - o.cpu}, {Name: "memory", Unit: "MB", Value: o.c.memory(o.c.t)},
	}
}

// mine are the pods of the phase.
func (c *cluster) mine() []observe.Pod {
	return slices.DeleteFunc(c.recorder.Pods(), func(p observe.Pod) bool { return p.Object.Namespace != corev1.NamespaceDefault })
}

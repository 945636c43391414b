package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/internal/window"
)

// sleepers is how many pods a namespace has that sleeps.
const sleepers = 500

// A namespace falls asleep and wakes, at EC2's speed on light machines, on new nodes and on those of a standby buffer: seconds until its pods wait and its
// nodes are gone, from the end of a sleep that nobody foresaw until all of its pods run, and from the end of a window until the first and the last one run.
func BenchmarkSleep(b *testing.B) {
	for _, way := range []string{"new", standby} {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				sleepAndWake(b, way == standby)
			}
		})
	}
}

func sleepAndWake(b *testing.B, buffered bool) {
	b.Helper()
	b.Log(machine())
	l := newLab(b, sandbox.Config{Speed: 1, Machines: sandbox.Light, LauncherArgs: []string{"--feature-gates=CapacityBuffer=true"}})
	l.pool("night", "8", "16")
	empty := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"disruption":{"consolidateAfter":"1s"}}}`))
	if err := l.API.Patch(b.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "night"}}, empty); err != nil {
		b.Fatal(err)
	}
	web := l.deployment("web", "night", sleepers, podSpec("500m", "1Gi"))
	l.Await("running pods", func() bool { return l.runningPods() == sleepers })
	if buffered {
		l.standbyFor(b, web)
	}
	start := time.Now()
	l.sleep(b, `- {schedule: "@daily", duration: 48h}`)
	l.Await("pods that wait", func() bool { return l.runningPods() == 0 && len(l.pods("web")) == sleepers })
	b.ReportMetric(time.Since(start).Seconds(), "asleep-s")
	l.awaitNight(b, buffered)
	b.ReportMetric(time.Since(start).Seconds(), "nodes-gone-s")
	start = time.Now()
	l.sleep(b, "")
	l.Await("pods that run after a sleep that ends at once", func() bool { return l.runningPods() == sleepers })
	b.ReportMetric(time.Since(start).Seconds(), "woken-at-once-s")
	l.sleep(b, `- {schedule: "@daily", duration: 48h}`)
	l.Await("pods that wait", func() bool { return l.runningPods() == 0 && len(l.pods("web")) == sleepers })
	l.awaitNight(b, buffered)
	end := time.Now().UTC().Truncate(time.Minute).Add(3 * time.Minute)
	open := end.Add(-time.Hour)
	l.sleep(b, fmt.Sprintf(`- {schedule: "%d %d * * *", duration: 1h}`, open.Minute(), open.Hour()))
	l.Await("pods that run again", func() bool { return l.runningPods() == sleepers })
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

// standbyFor has stopped instances for all pods of the Deployment.
func (l *lab) standbyFor(b *testing.B, web *appsv1.Deployment) {
	b.Helper()
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: standby}}
	// Light machines list no images.
	buffer.Annotations = map[string]string{"slipway.dev/standby-prepare": "5s"}
	buffer.Spec.ScalableRef, buffer.Spec.Percentage = &autoscalingv1beta1.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: web.Name}, new(int32(100))
	buffer.Spec.ProvisioningStrategy = new("buffer.slipway.dev/standby")
	l.Create(buffer)
	start := time.Now()
	l.Await("stopped instances", func() bool { return l.there(standby) })
	b.Logf("%d instances for %d pods were stopped %.1f s after the buffer came", l.claimsWith("Standby"), sleepers, time.Since(start).Seconds())
}

// awaitNight waits until no node runs any more, and all instances of the buffer are stopped.
func (l *lab) awaitNight(b *testing.B, buffered bool) {
	b.Helper()
	l.Await("nodes to go", func() bool {
		return l.claimsWith(karpv1.ConditionTypeLaunched) == l.claimsWith("Standby") && (!buffered || l.there(standby))
	})
}

// runningPods is how many of the Deployment's pods run.
func (l *lab) runningPods() int { return len(slices.DeleteFunc(l.pods("web"), notRunning)) }

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

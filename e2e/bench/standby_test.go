package bench_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// standbyPods is how many pods come at once, each of which needs a node for itself.
const standbyPods = 20

// Pods that wake the stopped instances of a standby buffer, beside as many that have new nodes launched, at EC2's speed: seconds from the pod's creation until
// it runs, and until the buffer has its instances again.
func BenchmarkStandby(b *testing.B) {
	for b.Loop() {
		b.Log(machine())
		l := newLab(b, sandbox.Config{Speed: 1, LauncherArgs: []string{"--feature-gates=CapacityBuffer=true"}})
		l.pool("standby", "2")
		template := corev1.PodTemplateSpec{Spec: podSpec("1100m", "1Gi")}
		template.Labels = map[string]string{"app": "web"}
		l.Create(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chunk"}, Template: template})
		buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "spare"}}
		// A machine lists the images that it has every ten seconds of its time.
		buffer.Annotations = map[string]string{"slipway.dev/standby-prepare": "5s"}
		buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "chunk"}, new(int32(standbyPods))
		buffer.Spec.ProvisioningStrategy = new("buffer.slipway.dev/standby")
		start := time.Now()
		l.Create(buffer)
		l.Await("stopped instances", func() bool { return l.claimsWith("Standby") == standbyPods })
		b.Logf("%d instances were stopped %.1f s after the buffer came", standbyPods, time.Since(start).Seconds())
		l.deployment("other", "standby", standbyPods, podSpec("1100m", "1Gi"))
		l.awaitRan(b, "other")
		start = time.Now()
		l.deployment("web", "standby", standbyPods, podSpec("1100m", "1Gi"))
		l.awaitRan(b, "web")
		l.Await("stopped instances again", func() bool { return l.claimsWith("Standby") == standbyPods })
		b.ReportMetric(time.Since(start).Seconds(), "refilled-s")
	}
}

// awaitRan waits until all pods of an app run, and reports how long they waited.
func (l *lab) awaitRan(b *testing.B, app string) {
	b.Helper()
	var took []float64
	l.Await("pods of "+app, func() bool {
		took = nil
		for _, p := range l.Recorder.Pods() {
			if p.Object.Labels["app"] == app && p.Running.Seen() {
				took = append(took, p.Running.At.Sub(p.Created.At).Seconds())
			}
		}
		return len(took) == standbyPods
	})
	slices.Sort(took)
	b.ReportMetric(took[standbyPods/2], app+"-p50-s")
	b.ReportMetric(took[standbyPods-1], app+"-max-s")
	b.Logf("%s: the pods ran after %.1f s, half of them after %.1f s, all after %.1f s", app, took[0], took[standbyPods/2], took[standbyPods-1])
}

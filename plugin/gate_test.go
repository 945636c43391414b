package plugin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/legacyregistry"
)

// gated returns how many pods of all schedulers of this process are gated.
func gated(t *testing.T) float64 {
	t.Helper()
	return metricOf(t, legacyregistry.DefaultGatherer, "scheduler_pending_pods", "gated")
}

// The scheduler's queue compares each event about a node with all pods that it does not gate: with thousands of promised pods, and as many
// events as thousands of new nodes make, that would be most of its work. The test is not parallel: the metric is the process's.
func TestPromisedPodsAreGated(t *testing.T) {
	before := gated(t)
	taint := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("tainted", "4", nil, taint)}})
	h.replicaSet("web", 3)
	for _, name := range []string{"a", "b", "c"} {
		h.pod(name, ownedBy("web"))
	}
	h.eventually("the launch", func() bool { return len(h.launcher.podNames()) == 3 })
	h.eventually("three gated pods", func() bool { return gated(t)-before == 3 })
}

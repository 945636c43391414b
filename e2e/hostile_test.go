package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// softSpreads is how many topology spread constraints each hostile pod has: a pod of one megabyte.
const softSpreads = 8000

// launched is how long it takes from the creation of the Deployment until n pods of its namespace run.
func (w *world) launched(n int, create func()) time.Duration {
	begin := time.Now()
	create()
	w.awaitRunning(n)
	return time.Since(begin)
}

// mostBeside is how long a launch may take beside an attack, given what it takes alone.
func mostBeside(alone time.Duration) time.Duration { return 4*alone + 10*time.Second }

// deletePods deletes the pods of the test's namespace without a grace period.
func (w *world) deletePods() {
	w.t.Helper()
	err := persist(w.t.Context(), func() error {
		return w.client.DeleteAllOf(w.t.Context(), &corev1.Pod{}, client.InNamespace(w.name), client.GracePeriodSeconds(0))
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.await(w.t, "the pods of namespace "+w.name+" to be gone", func() bool {
		return !slices.ContainsFunc(w.pods(), func(p observe.Pod) bool { return !p.Deleted.Seen() })
	})
}

// Four pods of a megabyte each, made by someone who may edit one namespace, hold up no pods of another: these get their nodes about as
// soon as if they were alone, no pod is set aside, and the hostile ones run as well. They go on running while more ordinary pods come.
func TestHostilePodsHoldUpNoOtherPodsAlone(t *testing.T) {
	w := newWorld(t, "hostile")
	w.pool("hostile", func(p *karpv1.NodePool) { require(p, karpv1.CapacityTypeLabelKey, "on-demand") })
	other := newTenant(t, "hostile-other")
	ordinary := func(name string) { other.deployment(name, 20, w.podSpec("1500m", "500Mi", nil)) }
	alone := other.launched(20, func() { ordinary("alone") })

	for i := range 4 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile", Name: fmt.Sprintf("spread-%d", i), Labels: map[string]string{"app": "x"}}}
		pod.Spec = w.podSpec(fmt.Sprintf("%dm", 30+i), "64Mi", func(spec *corev1.PodSpec) {
			for k := range softSpreads {
				spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: fmt.Sprintf("k%d", k), WhenUnsatisfiable: corev1.ScheduleAnyway,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
				})
			}
		})
		w.create(pod)
	}
	beside := other.launched(40, func() { ordinary("beside") })
	w.awaitRunning(4)
	after := other.launched(60, func() { ordinary("after") })
	if max(beside, after) > mostBeside(alone) {
		// The machine may have become busy since the first measurement.
		w.deletePods()
		alone = max(alone, other.launched(80, func() { ordinary("again") }))
	}
	shared.measured(t, "20 ordinary pods ran after %v; beside pods that wait with %d constraints each after %v; beside such pods that run after %v", alone, softSpreads, beside, after)
	if most := mostBeside(alone); max(beside, after) > most {
		t.Errorf("20 ordinary pods ran after %v and %v, more than %v: alone it took %v", beside, after, most, alone)
	}
	for _, e := range append(w.events("FailedScheduling"), other.events("FailedScheduling")...) {
		if strings.Contains(e.Message, "planning this pod failed") {
			t.Errorf("pod %s: %s", e.InvolvedObject.Name, e.Message)
		}
	}
}

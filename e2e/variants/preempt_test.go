package variants_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// With preferLaunch a pod below that priority gets a node of its own and leaves the pods of lower priority where they are; a pod of that
// priority preempts one of them.
func TestPreferLaunch(t *testing.T) {
	l := newLab(t, sandbox.Config{PluginArgs: map[string]any{"preferLaunch": 1000}})
	for name, value := range map[string]int32{"below": 999, "at": 1000} {
		l.Create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	}
	l.deployment("low", 1, "1500m", nil)
	l.awaitRunning("low", 1)
	first := l.pods("low")[0].Object
	of := func(class string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.PriorityClassName = class }
	}
	l.deployment("below", 1, "1500m", of("below"))
	l.awaitRunning("below", 1)
	if now := l.pods("low"); len(now) != 1 || now[0].Object.UID != first.UID {
		t.Fatalf("a pod below preferLaunch preempted: %d pods of low run, want the first", len(now))
	}
	if n := len(l.claims()); n != 2 {
		t.Errorf("%d NodeClaims, want one for each pod", n)
	}
	l.deployment("at", 1, "1500m", of("at"))
	l.Await("a pod of low to be preempted", func() bool {
		for _, p := range l.Recorder.Pods() {
			if p.Object.UID == first.UID {
				return p.Terminating.Seen() || p.Deleted.Seen()
			}
		}
		return true
	})
	l.awaitRunning("at", 1)
	l.awaitRunning("low", 1)
}

package pending

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

func named(namespace, name string) intake.Entry {
	return intake.Entry{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)}}}
}

// A pod that fails again is set aside for longer, up to ten minutes, and starts anew once it was planned.
func TestAsideDoubles(t *testing.T) {
	list, e, now := asides{}, named("a", "x"), time.Unix(0, 0)
	for _, want := range []time.Duration{10, 20, 40, 80, 160, 320, 600, 600} {
		until := list.failed(e, now)
		if got := until.Sub(now); got != want*time.Second {
			t.Errorf("set aside for %s, want %ds", got, want)
		}
		if !list.holds(e.Pod.UID, now) || len(list.due(until.Add(-1))) > 0 {
			t.Error("the pod is not set aside")
		}
		if got := list.due(until); len(got) != 1 || len(list.due(until)) > 0 || list.holds(e.Pod.UID, until) {
			t.Errorf("%d pods are due, want the one, once", len(got))
		}
		now = until
	}
	list.planned([]intake.Entry{e})
	if got := list.failed(e, now).Sub(now); got != asideFirst {
		t.Errorf("set aside for %s after it was planned, want %s", got, asideFirst)
	}
}

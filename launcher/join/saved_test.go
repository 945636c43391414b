package join_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/join"
)

// The time saved by binding ahead is reported when the scheduler could have bound the pod: once the taints of others are removed. The delay
// by the launcher's own taint is not counted, and a pod that the scheduler could bind at once saved nothing.
func TestTimeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, registry := measured(t)
		n := w.node("node-1")
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		if err := w.api.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		w.kubelet("node-1", corev1.ConditionTrue)
		w.looks(c, 1)
		w.wantTrace("bind web-1")
		time.Sleep(3 * time.Second)
		w.looks(c, 1)
		if got := saved(t, registry); got != "" {
			t.Errorf("told while the scheduler is kept off:\n%s", got)
		}
		n = w.node("node-1")
		n.Spec.Taints = nil
		if err := w.api.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		w.looks(c, 2)
		if got, want := saved(t, registry), "ready: 1 pods, 3 s"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestNothingSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, registry := measured(t)
		w.kubelet("node-1", corev1.ConditionTrue)
		w.looks(c, 1)
		time.Sleep(time.Second)
		w.looks(c, 2)
		if got, want := saved(t, registry), "ready: 1 pods, 0 s"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// measured is a world with a node that boots for one pod, and the registry of the controller's metrics.
func measured(t *testing.T) (*world, *join.Controller, *prometheus.Registry) {
	t.Helper()
	w := newWorld(t)
	w.claim(time.Minute, "web-1")
	registry := prometheus.NewRegistry()
	config := w.config()
	config.Registerer = registry
	c, err := join.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.looks(c, 2)
	return w, c, registry
}

// saved returns the metric of the moments that have pods.
func saved(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); f.GetName() == "slipway_prebind_saved_seconds" && h.GetSampleCount() > 0 {
				out = append(out, fmt.Sprintf("%s: %d pods, %.3g s", m.GetLabel()[0].GetValue(), h.GetSampleCount(), h.GetSampleSum()))
			}
		}
	}
	return strings.Join(out, "\n")
}

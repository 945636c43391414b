package plugin

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// The delay of a gang ends when a pod of it is bound.
func TestGangDelayEndsWhenItIsBound(t *testing.T) {
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	d, now := newDelays(m), time.Now()
	d.gangs.GaveBack("default/g", "no capacity", now)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{plan.LabelGang: "g"}}}
	d.observe(pod)
	if _, lasts := d.gangs.Check("default/g", now); !lasts {
		t.Error("the delay ends before a pod is bound")
	}
	pod.Spec.NodeName = "n"
	d.observe(pod)
	if _, lasts := d.gangs.Check("default/g", now); lasts {
		t.Error("the delay lasts although a pod is bound")
	}
}

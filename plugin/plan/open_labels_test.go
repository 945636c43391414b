package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Pods of classes of their own that must be apart by two labels with endless values cost little more than those without such labels.
func TestApartByOpenLabels(t *testing.T) {
	spend := func(labels ...string) time.Duration {
		in := world(t, 1300, poolYAML{Name: "default", Requirements: []string{"example.com/a Exists", "example.com/b Exists"}})
		b := newBatch(&in, 1)
		var terms []corev1.PodAffinityTerm
		for _, key := range labels {
			terms = append(terms, corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}})
		}
		for i := range 60 {
			b.add(1, 100+i, 128, label("app", "x"), func(p *corev1.Pod) {
				p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
			})
		}
		before := cputime.Used()
		p := plan.Make(t.Context(), in)
		if len(p.Claims) != 60 || len(p.Unplaced) > 0 {
			t.Errorf("%d claims, %d classes unplaced, want a node for each of 60 pods apart by %v", len(p.Claims), len(p.Unplaced), labels)
		}
		return cputime.Used() - before
	}
	plain, open := spend(corev1.LabelHostname), spend("example.com/a", "example.com/b")
	if open > 20*max(plain, 20*time.Millisecond) {
		t.Errorf("%v of CPU, apart by hosts %v", open, plain)
	}
}

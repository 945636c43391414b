package plan_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// preferring is n pods of 40 apps, each with a preference: a host of their own, a zone, a family, or hosts evenly.
func preferring(b *batch, n int) {
	for d := range 40 {
		app := fmt.Sprintf("app-%d", d)
		b.add(n/40, b.one(100, 250, 500, 1000), b.one(256, 512, 1024, 2048), label("app", app), func(p *corev1.Pod) { prefer(p, d%4) })
	}
}

// prefer gives the pod a preference of the kind.
func prefer(p *corev1.Pod, kind int) {
	own := selector("app", p.Labels["app"])
	a := p.Spec.Affinity
	node := func(key, value string) {
		a.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 50, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}},
		}}}
	}
	terms := func(key string) []corev1.WeightedPodAffinityTerm {
		return []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: own}}}
	}
	evenly := func(key string) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: own,
		})
	}
	switch kind {
	case 0:
		a.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelHostname)}
	case 1:
		node(corev1.LabelTopologyZone, "us-east-1b")
	case 2:
		node("karpenter.k8s.aws/instance-family", "m6i")
	case 3:
		evenly(corev1.LabelHostname)
	case 4:
		evenly(corev1.LabelTopologyZone)
	case 5:
		a.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelTopologyZone)}
	case 6:
		a.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelTopologyZone)}
	case 7:
		a.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelHostname)}
	}
}

// TestPreferencesProperties plans random batches with preferences: they cost no more than their share, and no pod its
// node.
func TestPreferencesProperties(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			make := func(share float64) (plan.Input, plan.Plan) {
				in := randomInput(t, seed)
				rng := rand.New(rand.NewPCG(seed, 5))
				for i := range in.Classes {
					c := &in.Classes[i]
					if c.Pod.Spec.Affinity == nil {
						c.Pod.Spec.Affinity = &corev1.Affinity{}
					}
					if kind := rng.IntN(10); kind < 8 {
						prefer(c.Pod, kind)
					}
					c.Key = plan.ClassKey(c.Pod)
				}
				in.PreferenceShare = share
				return in, plan.Make(t.Context(), in)
			}
			in, p := make(0.1)
			check(t, in, p)
			checkRelations(t, in, p)
			_, without := make(0)
			left := map[int]int{}
			for _, u := range without.Unplaced {
				left[u.Class] = len(u.Pods)
			}
			for _, u := range p.Unplaced {
				if len(u.Pods) > left[u.Class] {
					t.Errorf("class %d: %d pods are unplaced, %d without preferences", u.Class, len(u.Pods), left[u.Class])
				}
			}
			if p.PlainCostPerHour != without.CostPerHour {
				t.Errorf("the plan says that it costs %f without preferences, it costs %f", p.PlainCostPerHour, without.CostPerHour)
			}
		})
	}
}

// BenchmarkPreferences is 4,000 pods with preferences, which Karpenter 1.14.1 gives a node each.
func BenchmarkPreferences(b *testing.B) {
	for _, share := range []float64{0, 0.1} {
		b.Run(fmt.Sprintf("4000pods/share=%g", share), func(b *testing.B) {
			x := mix{pods: 4000, add: preferring}
			in := x.input(b, x.pods, 1)
			in.PreferenceShare = share
			before := cputime.Used()
			var p plan.Plan
			for b.Loop() {
				p = plan.Make(b.Context(), in)
			}
			b.ReportMetric((cputime.Used()-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(p.CostPerHour/p.PlainCostPerHour, "cost/plain")
			b.ReportMetric(float64(len(p.Claims)), "nodes")
			b.ReportMetric(float64(len(p.Ignored)), "ignored")
		})
	}
}

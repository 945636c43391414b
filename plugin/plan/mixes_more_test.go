package plan_test

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// skewed is the shape of a cluster that has grown: most workloads are small and have few replicas, a few are large or many.
// Requests are log-normal, replicas fall off as a power of the rank.
func skewed(b *batch, n int) {
	round := func(x float64, step, low, high int) int { return min(max(int(x)/step*step, low), high) }
	for rank := 1; b.n < n; rank++ {
		cpu := round(180*math.Exp(1.1*b.rng.NormFloat64()), 5, 10, 16000)
		mib := round(420*math.Exp(1.2*b.rng.NormFloat64()), 16, 16, 64*1024)
		replicas := max(1, int(400/math.Pow(float64(rank), 1.1)))
		b.add(min(replicas, n-b.n), cpu, mib, label("app", fmt.Sprint(rank)))
	}
}

// preferences has what charts ask for without needing it: replicas on hosts of their own and over zones, a zone, a family.
func preferences(b *batch, n int) {
	b.in.PreferenceShare = 0.1
	prefer := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 50,
				Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
				}},
			}}}
		}
	}
	for i := 0; b.n < n; i++ {
		name := fmt.Sprintf("app-%d", i)
		with := []func(*corev1.Pod){label("app", name)}
		own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		switch i % 4 {
		case 0:
			with = append(with, func(p *corev1.Pod) {
				p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
					Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: own},
				}}}
			})
		case 1:
			with = append(with, prefer(corev1.LabelTopologyZone, "us-east-1b"))
		case 2:
			with = append(with, prefer("karpenter.k8s.aws/instance-family", "m6i"))
		default:
			with = append(with, func(p *corev1.Pod) {
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: own,
				}}
			})
		}
		cpu, mib := b.general()
		b.add(min(b.one(3, 5, 10, 20, 40), n-b.n), cpu, mib, with...)
	}
}

// beside has a thousand nodes that are half full: their room is used first.
func beside(b *batch, n int) {
	for i := range 1000 {
		name := fmt.Sprintf("node-%d", i)
		b.in.Nodes = append(b.in.Nodes, plan.Node{
			Name: name, Free: list(map[string]string{"cpu": "1900m", "memory": "7Gi", "pods": "30"}),
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: "us-east-1" + string(rune('a'+i%3)), corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			},
		})
	}
	b.shapes(n, 40, b.general)
}

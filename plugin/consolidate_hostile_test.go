package plugin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/internal/cputime"
)

// hostilePods are what one running pod may ask for within what the API server takes, by name.
func hostilePods() map[string]func(*corev1.Pod) {
	terms := func(n int) []corev1.PodAffinityTerm {
		var out []corev1.PodAffinityTerm
		for i := range n {
			out = append(out, corev1.PodAffinityTerm{
				TopologyKey: fmt.Sprintf("example.com/key-%d", i), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}},
			})
		}
		return out
	}
	preferred := func(n int) []corev1.WeightedPodAffinityTerm {
		var out []corev1.WeightedPodAffinityTerm
		for _, t := range terms(n) {
			out = append(out, corev1.WeightedPodAffinityTerm{Weight: 10, PodAffinityTerm: t})
		}
		return out
	}
	return map[string]func(*corev1.Pod){
		"none": func(*corev1.Pod) {},
		"soft-spreads-8000": func(p *corev1.Pod) {
			for i := range 8000 {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: fmt.Sprintf("example.com/key-%d", i), WhenUnsatisfiable: corev1.ScheduleAnyway,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-1"}},
				})
			}
		},
		"preferred-affinity-5000": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred(5000)}}
		},
		"anti-affinity-6000": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(6000)}}
		},
		"host-anti-affinity-6000": func(p *corev1.Pod) {
			apart := terms(6000)
			for i := range apart {
				apart[i].TopologyKey = corev1.LabelHostname
			}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart}}
		},
		"node-affinity-3000": func(p *corev1.Pod) {
			required := &corev1.NodeSelector{}
			for i := range 3000 {
				required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{fmt.Sprintf("other-%d", i)}},
				}})
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
		},
		"tolerations-8000": func(p *corev1.Pod) {
			for i := range 8000 {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("example.com/key-%d", i), Operator: corev1.TolerationOpExists})
			}
		},
	}
}

// A running pod that asks for thousands of things makes no decision about consolidation much dearer. One is made each 10 s at most
// while the cluster changes.
func TestRunningHostilePods(t *testing.T) {
	const nodes = 50
	all := hostilePods()
	ordinary := hostileDecision(t, nodes, all["none"])
	for name, ask := range all {
		spent := hostileDecision(t, nodes, ask)
		if spent > hostileDecisions*ordinary { // The machine may be slower than it was at the start.
			ordinary = max(ordinary, hostileDecision(t, nodes, all["none"]))
			spent = hostileDecision(t, nodes, ask)
		}
		if spent > hostileDecisions*ordinary {
			t.Errorf("%s: a decision takes %.2f s of CPU, %.2f s without that pod", name, spent, ordinary)
		}
	}
}

// hostileDecisions is how many times the CPU of an ordinary decision one with a hostile pod may take.
const hostileDecisions = 10

// BenchmarkConsolidateHostile prints the seconds of CPU of one decision about 1,000 nodes with one running pod that asks for
// thousands of things.
func BenchmarkConsolidateHostile(b *testing.B) {
	for name, ask := range hostilePods() {
		b.Run(name, func(b *testing.B) { b.ReportMetric(hostileDecision(b, 1000, ask), "CPU-s/decision") })
	}
}

// hostileDecision returns the CPU seconds of one decision where a running pod asks for more.
func hostileDecision(tb testing.TB, nodes int, ask func(*corev1.Pod)) float64 {
	tb.Helper()
	objects, reported := halfEmptyFleet(benchCatalog(), nodes)
	at := slices.IndexFunc(objects, func(o apiruntime.Object) bool { _, pod := o.(*corev1.Pod); return pod })
	ask(objects[at].(*corev1.Pod))
	p := benchPlannerOf(tb, objects)
	q := aboutFleet(reported, nodes)
	before := cputime.Used().Seconds()
	a, err := p.consolidator.decide(tb.Context(), decision{question: q, catalog: p.view.State(nil, time.Now()), reserved: p.reserved.Snapshot(), buffers: p.buffers.table})
	if err != nil || a.GetMessage() != "" {
		tb.Fatalf("answer %q, error %v", a.GetMessage(), err)
	}
	return cputime.Used().Seconds() - before
}

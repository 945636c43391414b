package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// diverse is n pods of the mix of Karpenter's benchmark with nearly each pod a class of its own, and a NodePool that allows
// all instance types, spot and on-demand.
func diverse(n int) *input.Objects {
	rng := rand.New(rand.NewPCG(1, 1))
	letter := func() string { return string(rune('a' + rng.IntN(7))) }
	selector := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	spread := func(key, value string) []corev1.TopologySpreadConstraint {
		return []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector("my-label", value),
		}}
	}
	r := input.NewReader()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot", "on-demand"}},
	}
	r.Add(pool)
	for i := range n {
		cpu, memory := 100+10*rng.IntN(141), 100+rng.IntN(3997)
		own, other, near := letter(), letter(), letter()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i), Labels: map[string]string{"my-label": own}}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(memory)<<20, resource.BinarySI),
		}}}}
		switch i % 5 {
		case 1:
			p.Spec.TopologySpreadConstraints = spread(corev1.LabelTopologyZone, other)
		case 2:
			p.Spec.TopologySpreadConstraints = spread(corev1.LabelHostname, other)
		case 3:
			p.Labels = map[string]string{"my-affinity": near}
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelTopologyZone, LabelSelector: selector("my-affinity", near)},
			}}}
		case 4:
			p.Labels = map[string]string{"app": "nginx"}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: selector("app", "nginx")},
			}}}
		}
		r.Add(p)
	}
	return r.Finish()
}

// BenchmarkHostile prints the seconds of CPU of plans with the scheduler's filters, of pods that are classes of their own.
func BenchmarkHostile(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint("diverse-", n), func(b *testing.B) {
			objects := diverse(n)
			m, err := market.Read(market.Files{})
			if err != nil {
				b.Fatal(err)
			}
			var out *simulate.Outcome
			before := cputime.Used()
			for b.Loop() {
				if out, err = simulate.Run(b.Context(), objects, m, simulate.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cputime.Used()-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(out.PlanTime.Seconds(), "plan-s")
			b.ReportMetric(out.VerifyTime.Seconds(), "filters-s")
			b.ReportMetric(float64(out.Rounds), "rounds")
			b.ReportMetric(float64(len(out.Plan.Unplaced)), "unplaced")
			b.ReportMetric(out.Plan.CostPerHour/out.LowerBound(b.Context()), "cost/bound")
		})
	}
}

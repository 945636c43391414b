package plan_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// world is what generated inputs share: a catalogue of about as many types as asked for, in three zones.
func world(tb testing.TB, types int, pools ...poolYAML) plan.Input {
	tb.Helper()
	c := catalogYAML{Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"}, Pools: pools}
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []struct {
		name string
		cpu  int
	}{
		{"medium", 1}, {"large", 2}, {"xlarge", 4}, {"2xlarge", 8}, {"4xlarge", 16}, {"8xlarge", 32}, {"12xlarge", 48}, {"16xlarge", 64}, {"24xlarge", 96},
	}
	for gen := 5; ; gen++ {
		for _, family := range []struct {
			name  string
			gib   int
			price float64
		}{{"c", 2, 0.0425}, {"m", 4, 0.048}, {"r", 8, 0.063}} {
			for _, vendor := range []struct {
				suffix, arch string
				price        float64
			}{{"i", "amd64", 1}, {"a", "amd64", 0.9}, {"g", "arm64", 0.8}, {"id", "amd64", 1.2}, {"gd", "arm64", 1}} {
				for _, s := range sizes {
					if len(c.Types) >= types {
						return c.input(tb)
					}
					od := family.price * vendor.price * float64(s.cpu) * (1 + 0.02*float64(gen-5))
					spot := ""
					for z := range 3 {
						if z > 0 {
							spot += ","
						}
						spot += fmt.Sprintf("%.4f", od*(0.25+0.4*rng.Float64()))
					}
					pods := min(29*max(s.cpu/2, 1), 234)
					c.Types = append(c.Types, fmt.Sprintf("%s%d%s.%s %s %d %dMi pods=%d od=%.4f spot=%s",
						family.name, gen, vendor.suffix, s.name, vendor.arch, s.cpu, s.cpu*family.gib*950, pods, od, spot))
				}
			}
		}
	}
}

// addPods adds n pods of the given number of shapes.
func addPods(in *plan.Input, n, shapes int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for s := range shapes {
		cpu := []int{100, 250, 500, 1000, 1500, 2000, 4000}[rng.IntN(7)]
		mem := cpu * []int{1, 2, 4, 8}[rng.IntN(4)] * (800 + rng.IntN(400)) / 1000
		add(in, fmt.Sprintf("shape-%d", s), n/shapes, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = list(map[string]string{"cpu": strconv.Itoa(cpu) + "m", "memory": strconv.Itoa(mem) + "Mi"})
		})
	}
}

func add(in *plan.Input, name string, n int, with func(*corev1.Pod)) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
	with(pod)
	c := plan.Class{Key: plan.ClassKey(pod), Pod: pod}
	for i := range n {
		c.Pods = append(c.Pods, catalog.PodRef{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i), UID: fmt.Sprintf("%s-%d", name, i)})
	}
	in.Classes = append(in.Classes, c)
}

func BenchmarkMake(b *testing.B) {
	onDemand := poolYAML{Name: "default", Requirements: []string{"karpenter.sh/capacity-type In on-demand"}}
	for _, bench := range []struct {
		name                string
		pods, shapes, types int
		pool                poolYAML
	}{
		{"1pod1shape/600types", 1, 1, 600, poolYAML{Name: "default"}},
		{"60pods/8shapes/600types", 60, 8, 600, poolYAML{Name: "default"}},
		{"1000pods/20shapes/600types", 1000, 20, 600, poolYAML{Name: "default"}},
		{"1000pods/20shapes/600types/on-demand", 1000, 20, 600, onDemand},
		{"2000pods/40shapes/1000types", 2000, 40, 1000, poolYAML{Name: "default"}},
		{"10000pods/40shapes/600types", 10000, 40, 600, poolYAML{Name: "default"}},
		{"3000pods/200shapes/600types", 3000, 200, 600, poolYAML{Name: "default"}},
		{"2000pods/2000shapes/600types", 2000, 2000, 600, poolYAML{Name: "default"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			in := world(b, bench.types, bench.pool)
			addPods(&in, bench.pods, bench.shapes, 1)
			var p plan.Plan
			for b.Loop() {
				p = plan.Make(b.Context(), in)
			}
			bound := plan.LowerBound(b.Context(), in, &p)
			b.ReportMetric(p.CostPerHour/bound, "cost/bound")
			b.ReportMetric(p.FirstFitPerHour/bound, "firstfit/bound")
			b.ReportMetric(float64(len(p.Claims)), "nodes")
		})
	}
}

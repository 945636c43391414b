package plan_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// hostile is an input that asks for far more work than its pods are worth, within what the API server takes.
type hostile struct {
	name string
	pool poolYAML
	add  func(b *batch)
}

// diverseFreely is the mix of Karpenter's benchmark with nearly every pod a class of its own: CPU in steps of 10m, memory of 1Mi.
func diverseFreely(b *batch, n int) {
	for i := range n {
		cpu, mib := 100+10*b.rng.IntN(141), 100+b.rng.IntN(3997)
		own, other, near := b.letter(), b.letter(), b.letter()
		switch i % 5 {
		case 0:
			b.add(1, cpu, mib, label("my-label", own))
		case 1:
			b.add(1, cpu, mib, label("my-label", own), spread(corev1.LabelTopologyZone, selector("my-label", other)))
		case 2:
			b.add(1, cpu, mib, label("my-label", own), spread(corev1.LabelHostname, selector("my-label", other)))
		case 3:
			b.add(1, cpu, mib, label("my-affinity", near), together(corev1.LabelTopologyZone, selector("my-affinity", near)))
		default:
			b.add(1, cpu, mib, label("app", "nginx"), apart(selector("app", "nginx")))
		}
	}
}

// diverseSelf is diverseFreely with all labels under one key, and selectors that match the pod itself.
func diverseSelf(b *batch, n int) {
	for i := range n {
		cpu, mib := 100+10*b.rng.IntN(141), 100+b.rng.IntN(3997)
		own := b.letter()
		self := selector("my-label", own)
		switch i % 5 {
		case 0:
			b.add(1, cpu, mib, label("my-label", own))
		case 1:
			b.add(1, cpu, mib, label("my-label", own), spread(corev1.LabelTopologyZone, self))
		case 2:
			b.add(1, cpu, mib, label("my-label", own), spread(corev1.LabelHostname, self))
		case 3:
			b.add(1, cpu, mib, label("my-label", own), together(corev1.LabelTopologyZone, self))
		default:
			b.add(1, cpu, mib, label("my-label", own), apart(self))
		}
	}
}

// softSpreads asks for n ScheduleAnyway constraints over keys of their own.
func softSpreads(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := range n {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: fmt.Sprintf("example.com/key-%d", i), WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector("app", "x"),
			})
		}
	}
}

// terms are n pod affinity terms over keys of their own.
func terms(n int) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	for i := range n {
		out = append(out, corev1.PodAffinityTerm{TopologyKey: fmt.Sprintf("example.com/key-%d", i), LabelSelector: selector("app", fmt.Sprint(i))})
	}
	return out
}

// preferredTerms asks for n preferred pod affinity terms.
func preferredTerms(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{}
		for _, t := range terms(n) {
			p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: 10, PodAffinityTerm: t})
		}
	}
}

// preferredNodes asks for n preferred node affinity terms.
func preferredNodes(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
		for i := range n {
			p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.PreferredSchedulingTerm{Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("type-%d", i)}},
				}}})
		}
	}
}

// selectorAndTerms asks for n labels and for one of n node affinity terms.
func selectorAndTerms(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		required := &corev1.NodeSelector{}
		p.Spec.NodeSelector = map[string]string{}
		for i := range n {
			key := fmt.Sprintf("example.com/key-%d", i)
			p.Spec.NodeSelector[key] = "x"
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}},
			})
		}
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
	}
}

// ring has n pods, each with required affinity to the next one.
func ring(b *batch, n int, topology string) {
	for i := range n {
		b.add(1, 100, 128, label("app", fmt.Sprint(i)), together(topology, selector("app", fmt.Sprint((i+1)%n))))
	}
}

// ports takes n host ports of its node, from the given one on.
func ports(first, n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := range n {
			number := int32(1 + (first+i)%60000)
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: number, HostPort: number})
		}
	}
}

// hostiles are the rows of the goals.
func hostiles() []hostile {
	open := poolYAML{Name: "default"}
	keys := poolYAML{Name: "default"}
	for k := range 4 {
		r := fmt.Sprintf("example.com/open-%d In", k)
		for v := range 6 {
			r += fmt.Sprintf(" v%d", v)
		}
		keys.Requirements = append(keys.Requirements, r)
	}
	prefer := func(f func(*batch)) func(*batch) {
		return func(b *batch) {
			b.in.PreferenceShare = 0.1
			f(b)
		}
	}
	return []hostile{
		{"diverse-freely-300", open, func(b *batch) { diverseFreely(b, 300) }},
		{"diverse-freely-500", open, func(b *batch) { diverseFreely(b, 500) }},
		{"diverse-freely-1000", open, func(b *batch) { diverseFreely(b, 1000) }},
		{"diverse-freely-10000", open, func(b *batch) { diverseFreely(b, 10000) }},
		{"diverse-self-300", open, func(b *batch) { diverseSelf(b, 300) }},
		{"diverse-self-1000", open, func(b *batch) { diverseSelf(b, 1000) }},
		{"diverse-self-10000", open, func(b *batch) { diverseSelf(b, 10000) }},
		{"soft-spreads-8000", open, prefer(func(b *batch) { b.add(1, 50, 64, softSpreads(8000)) })},
		{"soft-spreads-20x2000", open, prefer(func(b *batch) {
			for i := range 20 {
				b.add(1, 50+i, 64, softSpreads(2000))
			}
		})},
		{"preferred-affinity-5000", open, prefer(func(b *batch) { b.add(1, 50, 64, preferredTerms(5000)) })},
		{"preferred-affinity-20x1000", open, prefer(func(b *batch) {
			for i := range 20 {
				b.add(1, 50+i, 64, preferredTerms(1000))
			}
		})},
		{"preferred-nodes-5x2000", open, prefer(func(b *batch) {
			for i := range 5 {
				b.add(1, 50+i, 64, preferredNodes(2000))
			}
		})},
		{"required-affinity-6000", open, func(b *batch) {
			b.add(1, 50, 64, func(p *corev1.Pod) {
				p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(6000)}
			})
		}},
		{"required-anti-affinity-6000", open, func(b *batch) {
			b.add(1, 50, 64, func(p *corev1.Pod) {
				p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(6000)}
			})
		}},
		{"daemons-anti-affinity-20x2000", open, loneDaemons},
		{"own-resources-3000", open, func(b *batch) {
			for i := range 3000 {
				b.add(1, 100, 128, func(p *corev1.Pod) {
					p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprintf("example.com/r-%d", i))] = apiresource.MustParse("1")
				})
			}
		}},
		{"ring-zone-3000", open, func(b *batch) { ring(b, 3000, corev1.LabelTopologyZone) }},
		{"ring-host-3000", open, func(b *batch) { ring(b, 3000, corev1.LabelHostname) }},
		{"open-keys-4x6", keys, func(b *batch) {
			own := selector("app", "x")
			b.add(10, 100, 128, label("app", "x"), spread("example.com/open-0", own), spread("example.com/open-1", own), spread("example.com/open-2", own), spread("example.com/open-3", own))
		}},
		{"selector-and-terms-3000x3000", open, func(b *batch) { b.add(1, 100, 128, selectorAndTerms(3000)) }},
		{"labels-20x1000", open, func(b *batch) {
			for i := range 20 {
				b.add(1, 50+i, 64, apart(selector("app", "x")), func(p *corev1.Pod) {
					for k := range 1000 {
						p.Labels[fmt.Sprintf("%0253d/%063d", k, k)] = strings.Repeat("v", 63)
					}
				})
			}
		}},
		{"overflow", open, func(b *batch) {
			b.add(1, 100, 128, func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = apiresource.MustParse("9999999999999999999999999999999999999999999999")
			})
			b.shapes(200, 40, b.general)
		}},
		{"own-host-port-3000", open, func(b *batch) {
			for i := range 3000 {
				b.add(1, 100+i, 128, ports(i, 1))
			}
		}},
		{"own-host-port-1500x2", open, func(b *batch) {
			for i := range 1500 {
				b.add(2, 100+i, 128, ports(i, 1))
			}
		}},
		{"host-ports-2000x50", open, func(b *batch) {
			for i := range 2000 {
				b.add(1, 100+i, 128, ports(50*i, 50))
			}
		}},
		{"host-ports-200x2000", open, func(b *batch) {
			for i := range 200 {
				b.add(1, 100+i, 128, ports(0, 2000))
			}
		}},
		{"names-of-253", open, func(b *batch) {
			for i := range 2000 {
				long := fmt.Sprintf("%0253d", i)
				b.add(1, 100+i, 128, label("app", long[190:]), spread(long+"/"+long[:60], &metav1.LabelSelector{MatchLabels: map[string]string{"app": long[190:]}}))
			}
		}},
	}
}

// TestHostileInputsAreBounded plans inputs that ask for the most work, and holds them against 1,000 ordinary pods of the same run.
func TestHostileInputsAreBounded(t *testing.T) {
	all := mixes()
	ordinary := all[slices.IndexFunc(all, func(x mix) bool { return x.name == "diverse-1000" })]
	// A garbage collection may fall into one of two runs: the better one counts, and the second is needed where the first took too long.
	spend := func(in plan.Input, enough time.Duration) time.Duration {
		best := time.Hour
		for try := 0; try < 2 && best > enough; try++ {
			before := cputime.Used()
			plan.Make(t.Context(), in)
			best = min(best, cputime.Used()-before)
		}
		return best
	}
	limit := hostileShare * spend(ordinary.input(t, 1000, 1), 0)
	for _, x := range hostiles() {
		if strings.HasPrefix(x.name, "diverse") {
			continue // As many pods as they seem: TestMixes is about those.
		}
		t.Run(x.name, func(t *testing.T) {
			in := world(t, 400, x.pool)
			x.add(newBatch(&in, 1))
			spent := spend(in, limit)
			if spent > limit { // The machine may be slower than it was at the start.
				limit = max(limit, hostileShare*spend(ordinary.input(t, 1000, 1), 0))
				spent = spend(in, limit)
			}
			if spent > limit {
				t.Errorf("%v of CPU, more than %v", spent, limit)
			}
		})
	}
}

// shapes2000 is 10,000 pods of 2,000 classes: those of diverseFreely, five of each.
func shapes2000(tb testing.TB) plan.Input {
	tb.Helper()
	in := world(tb, 1300, poolYAML{Name: "default"})
	b := newBatch(&in, 1)
	diverseFreely(b, 2000)
	for i := range in.Classes {
		c := &in.Classes[i]
		for n := range 4 {
			ref := c.Pods[0]
			ref.Name, ref.UID = fmt.Sprint(ref.Name, "-", n), fmt.Sprint(ref.UID, "-", n)
			c.Pods = append(c.Pods, ref)
		}
	}
	return in
}

// A plan whose work is spent from the beginning places all pods by first fit, in a small part of the time.
func TestFirstFitPlacesAll(t *testing.T) {
	in := shapes2000(t)
	before := cputime.Used()
	whole := plan.Make(t.Context(), in)
	took := cputime.Used() - before
	before = cputime.Used()
	first := plan.MakeWithin(t.Context(), in, 1)
	spent := cputime.Used() - before
	if placed, left := accounted(&first); placed != 10000 || left > 0 {
		t.Errorf("first fit places %d pods and leaves %d, want all of 10,000", placed, left)
	}
	if first.CostPerHour < whole.CostPerHour {
		t.Errorf("first fit costs %v USD per hour, the whole plan %v", first.CostPerHour, whole.CostPerHour)
	}
	if spent > took/2 {
		t.Errorf("first fit took %v of CPU, the whole plan %v", spent, took)
	}
}

// BenchmarkFirstFit prints the seconds of CPU until 10,000 pods of 2,000 classes have a valid plan, before anything is improved.
func BenchmarkFirstFit(b *testing.B) {
	in := shapes2000(b)
	before := cputime.Used()
	var p plan.Plan
	for b.Loop() {
		p = plan.MakeWithin(b.Context(), in, 1)
	}
	b.ReportMetric((cputime.Used()-before).Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(p.CostPerHour, "USD/h")
	b.ReportMetric(float64(len(p.Unplaced)), "unplaced")
}

// Pods that are classes of their own take time in proportion to their number, and their bill stays as near to the bound.
func TestClassesOfTheirOwn(t *testing.T) {
	spend := func(n int) (time.Duration, float64) {
		in := world(t, 400, poolYAML{Name: "default"})
		diverseFreely(newBatch(&in, 1), n)
		before := cputime.Used()
		p := plan.Make(t.Context(), in)
		took := cputime.Used() - before
		if len(p.Unplaced) > 0 {
			t.Errorf("%d classes of %d are left: %v", len(p.Unplaced), n, p.Unplaced[0].Reasons)
		}
		return took, p.CostPerHour / plan.LowerBound(t.Context(), in, &p)
	}
	few, fewShare := spend(1000)
	many, manyShare := spend(10000)
	if many > 12*few {
		t.Errorf("10,000 pods take %v of CPU, 1,000 %v", many, few)
	}
	if fewShare > 1.10 || manyShare > 1.14 {
		t.Errorf("the plan of 1,000 pods costs %.3f times the bound, of 10,000 pods %.3f times", fewShare, manyShare)
	}
}

// hostileShare is how many times the CPU of 1,000 ordinary pods a hostile input may take: these take 0.16 s, and a hostile input at most 1 s.
const hostileShare = 6

// BenchmarkHostile prints the seconds of CPU, the memory and the bill of plans for inputs that ask for the most work.
func BenchmarkHostile(b *testing.B) {
	for _, x := range hostiles() {
		b.Run(x.name, func(b *testing.B) {
			in := world(b, 1300, x.pool)
			if dir := os.Getenv("SLIPWAY_CATALOG"); dir != "" {
				in.Catalog.InstanceTypes = map[string][]catalog.InstanceType{"default": readCatalog(b, dir)}
			}
			x.add(newBatch(&in, 1))
			var p plan.Plan
			resetPeak(b)
			before := cputime.Used()
			for b.Loop() {
				p = plan.Make(b.Context(), in)
			}
			b.ReportMetric((cputime.Used()-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(peakRSS(b))/(1<<20), "MiB-peak")
			n := 0
			for _, u := range p.Unplaced {
				n += len(u.Pods)
			}
			b.ReportMetric(float64(n), "unplaced")
			b.ReportMetric(p.CostPerHour, "USD/h")
			b.ReportMetric(p.CostPerHour/plan.LowerBound(b.Context(), in, &p), "cost/bound")
		})
	}
}

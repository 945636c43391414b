package plan_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// mix is a batch of pods whose plan has to stay within ratio times the lower bound.
type mix struct {
	name  string
	ratio float64
	// spot says that the pool may buy spot instances too.
	spot bool
	// pods of the full size; a test may ask for fewer.
	pods int
	add  func(b *batch, n int)
}

// batch collects pods into classes.
type batch struct {
	in      *plan.Input
	rng     *rand.Rand
	classOf map[string]int
	n       int
}

func newBatch(in *plan.Input, seed uint64) *batch {
	return &batch{in: in, rng: rand.New(rand.NewPCG(seed, 17)), classOf: map[string]int{}}
}

// add adds n pods of the requests, changed by with.
func (b *batch) add(n, milliCPU, mib int, with ...func(*corev1.Pod)) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{}},
		Spec: corev1.PodSpec{Affinity: &corev1.Affinity{}, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: list(map[string]string{"cpu": strconv.Itoa(milliCPU) + "m", "memory": strconv.Itoa(mib) + "Mi"}),
		}}}},
	}
	for _, f := range with {
		f(pod)
	}
	key := plan.ClassKey(pod)
	ci, ok := b.classOf[key]
	if !ok {
		ci = len(b.in.Classes)
		b.classOf[key] = ci
		pod.Name = fmt.Sprintf("class-%d", ci)
		b.in.Classes = append(b.in.Classes, plan.Class{Key: key, Pod: pod})
	}
	for range n {
		name := fmt.Sprintf("pod-%d", b.n)
		b.n++
		b.in.Classes[ci].Pods = append(b.in.Classes[ci].Pods, catalog.PodRef{Namespace: "default", Name: name, UID: name})
	}
}

// one is any of the values.
func (b *batch) one(values ...int) int { return values[b.rng.IntN(len(values))] }

// letter is one of seven label values.
func (b *batch) letter() string { return string(rune('a' + b.rng.IntN(7))) }

// shapes splits n pods over k shapes, some of them much more frequent than others.
func (b *batch) shapes(n, k int, shape func() (milliCPU, mib int)) {
	weight, sum := make([]float64, k), 0.0
	for i := range weight {
		weight[i] = 0.2 + b.rng.ExpFloat64()
		sum += weight[i]
	}
	for i, left := 0, n; i < k && left > 0; i++ {
		m := min(max(int(weight[i]/sum*float64(n)+0.5), 1), left)
		if i == k-1 {
			m = left
		}
		left -= m
		cpu, mib := shape()
		b.add(m, cpu, mib)
	}
}

func (b *batch) general() (int, int) {
	cpu := b.one(100, 200, 250, 500, 500, 750, 1000, 1000, 1500, 2000, 3000, 4000)
	mib := cpu * b.one(1, 2, 2, 4, 4, 8) * b.one(75, 100, 100, 125, 150) / 100
	return cpu, max((mib+63)/64*64, 64)
}

func (b *batch) small() (int, int) {
	if b.rng.IntN(8) == 0 {
		return b.general()
	}
	return b.one(10, 25, 50, 75, 100, 150, 200, 250, 300), b.one(32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func spread(topology string, s *metav1.LabelSelector) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: s,
		})
	}
}

func together(topology string, s *metav1.LabelSelector) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: topology, LabelSelector: s}},
		}
	}
}

// apart keeps pods from each other's nodes.
func apart(s *metav1.LabelSelector) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: s}},
		}
	}
}

func nodeSelector(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = map[string]string{}
		}
		p.Spec.NodeSelector[key] = value
	}
}

// diverse is the mix of Karpenter's benchmark (kubernetes-sigs/karpenter, scheduling_benchmark_test.go), written anew,
// with affinity by hostname added: shapes and labels at random, selectors at random too, a fifth of the pods one per host.
func diverse(b *batch, n int) {
	for i := range n {
		cpu, mib := b.one(100, 250, 500, 1000, 1500), b.one(100, 256, 512, 1024, 2048, 4096)
		own, other, near := b.letter(), b.letter(), b.letter()
		switch {
		case i%5 == 0:
			b.add(1, cpu, mib, label("my-label", own))
		case i%5 == 1:
			b.add(1, cpu, mib, label("my-label", own), spread(corev1.LabelTopologyZone, selector("my-label", other)))
		case i%5 == 2:
			b.add(1, cpu, mib, label("my-label", own), spread(corev1.LabelHostname, selector("my-label", other)))
		case i%100 == 3:
			b.add(1, cpu, mib, label("host-affinity", near), together(corev1.LabelHostname, selector("host-affinity", near)))
		case i%5 == 3:
			b.add(1, cpu, mib, label("my-affinity", near), together(corev1.LabelTopologyZone, selector("my-affinity", near)))
		default:
			b.add(1, cpu, mib, label("app", "nginx"), apart(selector("app", "nginx")))
		}
	}
}

// apps is the same as Deployments: those of one kind share labels, selectors are their own.
func apps(b *batch, n int) {
	for i := 0; b.n < n; i++ {
		cpu, mib := b.general()
		cpu = min(cpu, 2000)
		name := fmt.Sprintf("app-%d", i)
		own := selector("app", name)
		with := []func(*corev1.Pod){label("app", name)}
		k := b.one(3, 5, 10, 20, 40)
		switch i % 5 {
		case 1:
			with = append(with, spread(corev1.LabelTopologyZone, own))
		case 2:
			with = append(with, spread(corev1.LabelHostname, own))
		case 3:
			with = append(with, together([]string{corev1.LabelTopologyZone, corev1.LabelHostname}[b.rng.IntN(2)], own))
		case 4:
			with = append(with, apart(own))
		}
		b.add(min(k, n-b.n), cpu, mib, with...)
	}
}

// everything joins spread by zone and host, affinities, pods that refuse spot, and two architectures.
func everything(b *batch, n int) {
	for i := 0; b.n < n; i++ {
		cpu, mib := b.general()
		name := fmt.Sprintf("app-%d", i)
		own := selector("app", name)
		with := []func(*corev1.Pod){label("app", name)}
		if b.rng.IntN(4) == 0 {
			with = append(with, nodeSelector("karpenter.sh/capacity-type", "on-demand"))
		}
		if arch := b.rng.IntN(3); arch < 2 {
			with = append(with, nodeSelector(corev1.LabelArchStable, []string{"amd64", "arm64"}[arch]))
		}
		switch b.rng.IntN(8) {
		case 0, 1:
			with = append(with, spread(corev1.LabelTopologyZone, own))
		case 2:
			with = append(with, spread(corev1.LabelHostname, own))
		case 3:
			with = append(with, spread(corev1.LabelTopologyZone, own), spread(corev1.LabelHostname, own))
		case 4:
			with = append(with, together(corev1.LabelTopologyZone, own))
		case 5:
			with = append(with, apart(own))
		}
		b.add(min(b.one(2, 5, 10, 20, 40, 80), n-b.n), cpu, mib, with...)
	}
}

func daemons(b *batch, n int) {
	for i, d := range [][2]int{{50, 64}, {100, 128}, {25, 32}, {200, 512}, {100, 200}, {150, 256}, {10, 50}} {
		b.in.DaemonSets = append(b.in.DaemonSets, daemonSet(podYAML{
			Name: fmt.Sprintf("daemon-%d", i), Requests: map[string]string{"cpu": strconv.Itoa(d[0]) + "m", "memory": strconv.Itoa(d[1]) + "Mi"},
		}))
	}
	b.shapes(n, 20, func() (int, int) { return b.one(50, 100, 150, 200, 250), b.one(64, 128, 256, 512) })
}

// mixes are those of the planner's goals.
func mixes() []mix {
	forty := func(b *batch, n int) { b.shapes(n, 40, b.general) }
	return []mix{
		{"forty-shapes", 1.01, false, 10000, forty},
		{"forty-shapes-spot", 1.018, true, 10000, forty},
		{"memory-and-cpu", 1.012, false, 2000, func(b *batch, n int) {
			b.shapes(n/2, 6, func() (int, int) { return b.one(250, 500, 1000), 1024 * b.one(6, 8, 10, 12, 16) })
			b.shapes(n-n/2, 6, func() (int, int) { return b.one(1000, 2000, 3000, 4000), 256 * b.one(2, 3, 4, 6, 8) })
		}},
		{"odd-sizes", 1.012, false, 3000, func(b *batch, n int) {
			b.shapes(n, 60, func() (int, int) {
				cpu := 3000 + 500*b.rng.IntN(59)
				return cpu, cpu * b.one(1, 2, 3, 4, 6, 8) * 1024 / 1000
			})
		}},
		{"small-200-shapes", 1.01, false, 3000, func(b *batch, n int) { b.shapes(n, 200, b.small) }},
		{"daemonsets", 1.03, false, 2000, daemons},
		{"diverse-100", 1.2, false, 100, diverse},
		{"diverse-1000", 1.12, false, 1000, diverse},
		{"diverse-10000", 1.2, false, 10000, diverse},
		{"apps-1000", 1.12, false, 1000, apps},
		{"apps-10000", 1.2, false, 10000, apps},
		{"everything", 1.12, true, 3000, everything},
		{"2000-shapes", 1.02, true, 2000, func(b *batch, n int) {
			for range n {
				b.add(1, 10*(1+b.rng.IntN(400)), 16*(1+b.rng.IntN(500)))
			}
		}},
		{"skewed", 1.05, false, 3000, skewed},
		{"preferences", 1.25, true, 3000, preferences},
		{"1000-nodes", 1.05, false, 6000, beside},
		{"one-deployment", 1.35, true, 12, func(b *batch, n int) { b.add(n, 700, 1500, label("app", "a")) }},
		{"lone-pod", 1.001, true, 1, func(b *batch, n int) { b.add(n, 700, 1500) }},
	}
}

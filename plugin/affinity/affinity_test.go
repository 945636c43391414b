package affinity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/affinity"
)

// plugin is what both of them are.
type plugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// world is a cache that a test changes, with both plugins over its snapshot.
type world struct {
	t          testing.TB
	cache      internalcache.Cache
	snapshot   *internalcache.Snapshot
	namespaces informers.SharedInformerFactory
	stock, our plugin
	random     *rand.Rand
	nodes      []*corev1.Node
	pods       []*corev1.Pod
	made       int
}

func newWorld(tb testing.TB, seed uint64) *world {
	tb.Helper()
	metrics.Register()
	w := &world{
		t: tb, cache: internalcache.New(tb.Context(), nil, false), snapshot: internalcache.NewEmptySnapshot(),
		random: rand.New(rand.NewPCG(seed, 1)), namespaces: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
	}
	for _, name := range []string{"a", "b"} {
		w.label(name, "1")
	}
	h, err := frameworkruntime.NewFramework(tb.Context(), nil, nil, frameworkruntime.WithInformerFactory(w.namespaces),
		frameworkruntime.WithSnapshotSharedLister(w.snapshot))
	if err != nil {
		tb.Fatal(err)
	}
	stock, err := interpodaffinity.New(tb.Context(), &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}, h, feature.Features{EnableSchedulingQueueHint: true})
	if err != nil {
		tb.Fatal(err)
	}
	our, err := affinity.New(tb.Context(), runtime.Object(nil), h)
	if err != nil {
		tb.Fatal(err)
	}
	w.stock, w.our = stock.(plugin), our.(plugin)
	return w
}

// label gives the namespace another label, and a version of its own.
func (w *world) label(name, team string) {
	w.t.Helper()
	w.made++
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(w.made), Labels: map[string]string{"team": team}}}
	if err := w.namespaces.Core().V1().Namespaces().Informer().GetStore().Add(ns); err != nil {
		w.t.Fatal(err)
	}
}

// pod returns a pod of one of some classes.
func (w *world) pod() *corev1.Pod {
	w.made++
	name := fmt.Sprintf("p%d", w.made)
	pod := st.MakePod().Namespace([]string{"a", "b"}[w.random.IntN(2)]).Name(name).UID(name).Label("app", []string{"x", "y"}[w.random.IntN(2)])
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": []string{"x", "y"}[w.random.IntN(2)]}}
	key := []string{"zone", "host"}[w.random.IntN(2)]
	switch w.random.IntN(7) {
	case 0:
		pod.PodAffinity(key, selector, st.PodAffinityWithRequiredReq)
	case 1:
		pod.PodAntiAffinity(key, selector, st.PodAntiAffinityWithRequiredReq)
	case 2:
		pod.PodAffinity(key, selector, st.PodAffinityWithPreferredReq)
	case 3:
		pod.PodAntiAffinity(key, selector, st.PodAntiAffinityWithRequiredPreferredReq)
	case 4:
		pod.PodAffinity(key, selector, st.PodAffinityWithRequiredPreferredReq)
	case 5:
		selects := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "1"}}
		out := pod.PodAntiAffinity(key, selector, st.PodAntiAffinityWithRequiredReq).Obj()
		out.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = selects
		return out
	}
	return pod.Obj()
}

// step changes one thing.
func (w *world) step() {
	w.t.Helper()
	log := klog.Background()
	one := func() int { return w.random.IntN(len(w.pods)) }
	switch n := w.random.IntN(20); {
	case len(w.nodes) < 3 || n == 0:
		w.made++
		name := fmt.Sprintf("n%d", w.made)
		node := st.MakeNode().Name(name).Label("host", name).Label("zone", fmt.Sprint(w.random.IntN(3))).Obj()
		w.nodes = append(w.nodes, node)
		w.cache.AddNode(log, node)
	case n == 1:
		i := w.random.IntN(len(w.nodes))
		changed := w.nodes[i].DeepCopy()
		changed.Labels["zone"] = fmt.Sprint(w.random.IntN(3))
		w.cache.UpdateNode(log, w.nodes[i], changed)
		w.nodes[i] = changed
	case n == 2:
		w.label([]string{"a", "b"}[w.random.IntN(2)], fmt.Sprint(w.random.IntN(2)))
	case n < 6 && len(w.pods) > 0:
		i := one()
		w.check(w.cache.RemovePod(log, w.pods[i]))
		w.pods = slices.Delete(w.pods, i, i+1)
	case n < 8 && len(w.pods) > 0:
		i := one()
		changed := w.pods[i].DeepCopy()
		changed.Labels["app"] = []string{"x", "y"}[w.random.IntN(2)]
		w.check(w.cache.UpdatePod(log, w.pods[i], changed))
		w.pods[i] = changed
	default:
		pod := w.pod()
		pod.Spec.NodeName = w.nodes[w.random.IntN(len(w.nodes))].Name
		w.check(w.cache.AddPod(log, pod))
		w.pods = append(w.pods, pod)
	}
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// answers returns what a plugin has to say of each node.
func (w *world) answers(p plugin, pod *corev1.Pod) (out []string) {
	w.t.Helper()
	ctx, state := context.Background(), framework.NewCycleState()
	nodes, err := w.snapshot.NodeInfos().List()
	w.check(err)
	_, status := p.PreFilter(ctx, state, pod, nodes)
	out = append(out, status.Code().String())
	var scores fwk.NodeScoreList
	skip := p.PreScore(ctx, state, pod, nodes).IsSkip()
	for _, node := range nodes {
		if !status.IsSkip() {
			out = append(out, fmt.Sprint(node.Node().Name, " ", p.Filter(ctx, state, pod, node).Message()))
		}
		score := int64(0)
		if !skip {
			score, _ = p.Score(ctx, state, pod, node)
		}
		scores = append(scores, fwk.NodeScore{Name: node.Node().Name, Score: score})
	}
	if !skip {
		p.ScoreExtensions().NormalizeScore(ctx, state, pod, scores)
	}
	for _, s := range scores {
		out = append(out, fmt.Sprint(s.Name, " ", s.Score))
	}
	return out
}

// After any sequence of changes, each node is filtered and scored as InterPodAffinity does, for pods of classes that are remembered, of new
// ones, and of those of which nothing can be.
func TestAnswersAreInterPodAffinitys(t *testing.T) {
	for seed := range uint64(12) {
		w := newWorld(t, seed)
		asked := map[string]int{}
		for round := range 150 {
			for range 1 + w.random.IntN(4) {
				w.step()
			}
			w.check(w.cache.UpdateSnapshot(klog.Background(), w.snapshot))
			pod := w.pod()
			want, got := w.answers(w.stock, pod), w.answers(w.our, pod)
			if !slices.Equal(want, got) {
				t.Fatalf("seed %d, round %d, pod %+v of namespace %s:\ngot  %q\nwant %q", seed, round, pod.Spec.Affinity, pod.Namespace, got, want)
			}
			for _, line := range got {
				asked[line]++
			}
		}
		if len(asked) < 10 {
			t.Errorf("seed %d: only %d different answers", seed, len(asked))
		}
	}
}

// With pods that are alike the plugin takes a fraction of InterPodAffinity's time: it looks at what has changed, and not at all pods.
func TestEqualPodsAreCheap(t *testing.T) {
	w := newWorld(t, 1)
	log := klog.Background()
	like := func() *corev1.Pod {
		w.made++
		name := fmt.Sprintf("p%d", w.made)
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
		return st.MakePod().Namespace("a").Name(name).UID(name).Label("app", "x").PodAffinity("zone", selector, st.PodAffinityWithRequiredReq).Obj()
	}
	for i := range 1000 {
		name := fmt.Sprintf("n%d", i)
		w.cache.AddNode(log, st.MakeNode().Name(name).Label("host", name).Label("zone", "z").Obj())
		for range 5 {
			pod := like()
			pod.Spec.NodeName = name
			w.check(w.cache.AddPod(log, pod))
		}
	}
	took := map[plugin][]time.Duration{}
	for i := range 50 {
		pod := like()
		pod.Spec.NodeName = fmt.Sprintf("n%d", i)
		w.check(w.cache.AddPod(log, pod))
		w.check(w.cache.UpdateSnapshot(log, w.snapshot))
		nodes, err := w.snapshot.NodeInfos().List()
		w.check(err)
		for _, p := range []plugin{w.stock, w.our} {
			state, asks, start := framework.NewCycleState(), like(), time.Now()
			if _, status := p.PreFilter(t.Context(), state, asks, nodes); !status.IsSuccess() {
				t.Fatal(status)
			}
			if status := p.PreScore(t.Context(), state, asks, nodes); !status.IsSuccess() {
				t.Fatal(status)
			}
			took[p] = append(took[p], time.Since(start))
		}
	}
	median := func(p plugin) time.Duration { return slices.Sorted(slices.Values(took[p]))[len(took[p])/2] }
	ratio := float64(median(w.stock)) / float64(median(w.our))
	t.Logf("InterPodAffinity takes %s, %s %s: %.0f times", median(w.stock), affinity.Name, median(w.our), ratio)
	if ratio < 5 {
		t.Errorf("%.1f times as fast as InterPodAffinity, want 5", ratio)
	}
}

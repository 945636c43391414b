package affinity_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
	"github.com/slipway-k8s/slipway/plugin/incremental/incrementaltest"
)

// world has both plugins.
type world struct {
	*incrementaltest.World
	stock incrementaltest.Plugin
	our   *affinity.Plugin
}

func newWorld(tb testing.TB, seed uint64) *world {
	tb.Helper()
	w := &world{World: incrementaltest.New(tb, seed)}
	w.Pod = w.pod
	stock, err := interpodaffinity.New(tb.Context(), &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}, w.Handle, feature.Features{EnableSchedulingQueueHint: true})
	if err != nil {
		tb.Fatal(err)
	}
	our, err := affinity.New(w.Tripped)(tb.Context(), nil, w.Handle)
	if err != nil {
		tb.Fatal(err)
	}
	w.stock, w.our = stock.(incrementaltest.Plugin), our.(*affinity.Plugin)
	w.our.OnDifference(w.Differed)
	return w
}

// fill adds so many nodes with a pod that has affinity on each.
func (w *world) fill(nodes int) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "y"}}
	for i := range nodes {
		name := w.Name("p")
		w.AddPod(st.MakePod().Namespace("a").Name(name).UID(name).Label("app", "x").PodAffinity(corev1.LabelTopologyZone, selector, st.PodAffinityWithPreferredReq).Obj(), w.AddNode([]string{"1", "2"}[i%2], "0").Name)
	}
}

// pod returns a pod of one of some classes.
func (w *world) pod() *corev1.Pod {
	name := w.Name("p")
	pod := st.MakePod().Namespace([]string{"a", "b"}[w.Random.IntN(2)]).Name(name).UID(name).Label("app", []string{"x", "y"}[w.Random.IntN(2)])
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": []string{"x", "y"}[w.Random.IntN(2)]}}
	key := []string{corev1.LabelTopologyZone, corev1.LabelHostname}[w.Random.IntN(2)]
	switch w.Random.IntN(7) {
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

// After any sequence of changes, each node is filtered and scored as InterPodAffinity does, for pods of classes that are remembered, of new
// ones, and of those of which nothing can be.
func TestAnswersAreInterPodAffinitys(t *testing.T) {
	var seen incrementaltest.Seen
	for seed := range uint64(24) {
		t.Logf("seed %d", seed)
		w := newWorld(t, seed)
		rounds := 150
		if seed%12 == 0 {
			w.fill(66)
			rounds = 50
		}
		w.Compare(w.stock, w.our, rounds, &seen)
	}
	t.Logf("%d cycles were filtered by what was remembered, %d scored, with %d different answers", seen.Filters, seen.Scores, len(seen.Answers))
	if seen.Filters < 300 || seen.Scores < 300 || len(seen.Answers) < 50 {
		t.Error("want 300 at least, and 50 different answers")
	}
}

// With pods that are alike the plugin takes a fraction of InterPodAffinity's time: it looks at what has changed, and not at all pods, also where nodes come.
func TestEqualPodsAreCheap(t *testing.T) {
	for _, nodesCome := range []bool{false, true} {
		w := newWorld(t, 1)
		like := func() *corev1.Pod {
			name := w.Name("p")
			selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
			return st.MakePod().Namespace("a").Name(name).UID(name).Label("app", "x").PodAffinity(corev1.LabelTopologyZone, selector, st.PodAffinityWithRequiredReq).Obj()
		}
		ratio := w.Times(w.stock, w.our, like, nodesCome, func(p incrementaltest.Plugin, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
			if _, status := p.PreFilter(t.Context(), state, pod, nodes); !status.IsSuccess() {
				return status
			}
			return p.PreScore(t.Context(), state, pod, nodes)
		})
		t.Logf("nodes come %t: %s is %.0f times as fast as InterPodAffinity", nodesCome, affinity.Name, ratio)
		if ratio < 5 {
			t.Errorf("nodes come %t: %.1f times as fast as InterPodAffinity, want 5", nodesCome, ratio)
		}
	}
}

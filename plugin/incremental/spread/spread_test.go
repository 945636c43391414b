package spread_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/incremental/incrementaltest"
	"github.com/slipway-k8s/slipway/plugin/incremental/spread"
)

// world has both plugins.
type world struct {
	*incrementaltest.World
	stock incrementaltest.Plugin
	our   *spread.Plugin
}

func newWorld(tb testing.TB, seed uint64) *world {
	tb.Helper()
	w := &world{World: incrementaltest.New(tb, seed)}
	w.Pod = w.pod
	args, features := &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	stock, err := podtopologyspread.New(tb.Context(), args, w.Handle, features)
	if err != nil {
		tb.Fatal(err)
	}
	our, err := spread.New(w.Tripped)(tb.Context(), nil, w.Handle)
	if err != nil {
		tb.Fatal(err)
	}
	w.stock, w.our = stock.(incrementaltest.Plugin), our.(*spread.Plugin)
	w.our.OnDifference(w.Differed)
	// Pods with this label have constraints by default.
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}}}
	if err := w.Informers.Core().V1().Services().Informer().GetStore().Add(service); err != nil {
		tb.Fatal(err)
	}
	return w
}

// pod returns a pod of one of some classes.
func (w *world) pod() *corev1.Pod {
	name := w.Name("p")
	pod := st.MakePod().Namespace([]string{"a", "b"}[w.Random.IntN(2)]).Name(name).UID(name).Label("app", []string{"x", "y"}[w.Random.IntN(2)]).Label("version", []string{"1", "2"}[w.Random.IntN(2)]).Obj()
	switch w.Random.IntN(4) {
	case 0:
		pod.Spec.NodeSelector = map[string]string{"pool": "1"}
	case 1:
		pod.Spec.Affinity = st.MakePod().NodeAffinityIn("pool", []string{"0", "none"}, st.NodeSelectorTypeMatchExpressions).Obj().Spec.Affinity
	}
	for range w.Random.IntN(4) {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, w.constraint())
	}
	return pod
}

func (w *world) constraint() corev1.TopologySpreadConstraint {
	out := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + w.Random.IntN(3)), TopologyKey: []string{corev1.LabelTopologyZone, corev1.LabelHostname, "pool"}[w.Random.IntN(3)],
		WhenUnsatisfiable: []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}[w.Random.IntN(2)],
		LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": []string{"x", "y"}[w.Random.IntN(2)]}},
	}
	switch w.Random.IntN(8) {
	case 0:
		out.LabelSelector = &metav1.LabelSelector{}
	case 1:
		out.LabelSelector = nil
	case 2:
		out.MatchLabelKeys = []string{"version", "none"}
	case 3:
		if out.WhenUnsatisfiable == corev1.DoNotSchedule {
			out.MinDomains = new(int32(1 + w.Random.IntN(5)))
		}
	case 4:
		out.NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
	case 5:
		out.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor)
	}
	return out
}

// After any sequence of changes, each node is filtered and scored as PodTopologySpread does, for pods of classes that are remembered, of new ones, and of those
// of which nothing can be, and also where pods are thought to come or to go.
func TestAnswersAreTopologySpreads(t *testing.T) {
	var seen incrementaltest.Seen
	for seed := range uint64(24) {
		t.Logf("seed %d", seed)
		w := newWorld(t, seed)
		w.Compare(w.stock, w.our, 150, &seen)
	}
	t.Logf("%d cycles were filtered by what was remembered, %d scored, with %d different answers", seen.Filters, seen.Scores, len(seen.Answers))
	if seen.Filters < 300 || seen.Scores < 300 || len(seen.Answers) < 50 {
		t.Error("want 300 at least, and 50 different answers")
	}
}

// like returns a pod of the class that the namespace's Service selects, with a hard constraint by zone or with none.
func (w *world) like(hard bool) *corev1.Pod {
	name := w.Name("p")
	pod := st.MakePod().Namespace("a").Name(name).UID(name).Label("app", "x")
	if hard {
		pod = pod.SpreadConstraint(1, corev1.LabelTopologyZone, corev1.DoNotSchedule, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, nil, nil, nil, nil)
	}
	return pod.Obj()
}

// With pods that are alike the plugin takes a fraction of PodTopologySpread's time: it looks at what has changed, and not at all pods. Where a node comes before each
// cycle it still takes less.
func TestEqualPodsAreCheap(t *testing.T) {
	for _, test := range []struct {
		hard, nodesCome bool
		want            float64
	}{{true, false, 5}, {false, false, 5}, {true, true, 1.5}, {false, true, 1.2}} {
		w := newWorld(t, 1)
		like := func() *corev1.Pod { return w.like(test.hard) }
		ratio := w.Times(w.stock, w.our, like, test.nodesCome, func(p incrementaltest.Plugin, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
			_, status := p.PreFilter(t.Context(), state, pod, nodes)
			if !test.hard {
				status = p.PreScore(t.Context(), state, pod, nodes[:50])
			}
			return status
		})
		t.Logf("%+v: %s is %.1f times as fast as PodTopologySpread", test, spread.Name, ratio)
		if ratio < test.want {
			t.Errorf("%+v: %.1f times as fast as PodTopologySpread", test, ratio)
		}
	}
}

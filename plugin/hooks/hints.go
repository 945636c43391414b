package hooks

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/utils/lru"
)

const (
	// hintsPerZone and maxHints bound the nodes of a hint.
	hintsPerZone, maxHints = 16, 96
	// hintUses is how many pods use a hint: half as many as it has nodes of a zone. Where each pod takes a node of its own in one zone, the last one still has
	// a choice among the best.
	hintUses = hintsPerZone / 2
	// hintAge bounds how long a hint counts: nodes that come or get room meanwhile are not in it.
	hintAge = time.Second
	// hintedNodes is how many nodes a cluster has at least. In a smaller one kube-scheduler scores most nodes, and hints would gain little.
	hintedNodes = 4 * maxHints
	// hintedClasses is how many classes have a hint at a time.
	hintedClasses = 64
)

// hints are the nodes that scored best for the last pod of a class that was tried on all nodes. The next pods of the class are tried on those alone, by all
// filters and scores. Only the scheduling goroutine uses them.
type hints struct {
	of *lru.Cache
}

// hint has the nodes for the next pods of a class.
type hint struct {
	nodes sets.Set[string]
	left  int
	until time.Time
}

func newHints() hints { return hints{lru.New(hintedClasses)} }

// take returns the nodes on which the next pod of the class is to be tried; nil for all.
func (h hints) take(class string, now time.Time) sets.Set[string] {
	value, _ := h.of.Get(class)
	known, ok := value.(*hint)
	if !ok || known.left == 0 || now.After(known.until) {
		return nil
	}
	known.left--
	return known.nodes
}

// learn remembers the best of the nodes that a pod of the class fits, some of each zone: what the next pods prefer may be another zone, as soon as this pod is
// in its own.
func (h hints) learn(class string, scores []fwk.NodePluginScores, nodes []fwk.NodeInfo, now time.Time) {
	order := make([]int, min(len(nodes), len(scores)))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b].TotalScore, scores[a].TotalScore) })
	best, ofZone := sets.New[string](), map[string]int{}
	for _, i := range order {
		node := nodes[i].Node()
		zone := node.Labels[corev1.LabelTopologyZone]
		if ofZone[zone] == hintsPerZone {
			continue
		}
		ofZone[zone]++
		if best.Insert(node.Name); len(best) == maxHints {
			break
		}
	}
	h.of.Add(class, &hint{nodes: best, left: hintUses, until: now.Add(hintAge)})
}

// Hintable reports whether a pod may be tried on the nodes that were best for another: it has no preference for or against other groups of nodes than zones, of
// which the nodes of a hint may all be in one.
func Hintable(pod *corev1.Pod) bool {
	other := func(key string) bool { return key != corev1.LabelHostname && key != corev1.LabelTopologyZone }
	var preferred []corev1.WeightedPodAffinityTerm
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			preferred = a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		}
		if a.PodAntiAffinity != nil {
			preferred = slices.Concat(preferred, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	return !slices.ContainsFunc(preferred, func(t corev1.WeightedPodAffinityTerm) bool { return other(t.PodAffinityTerm.TopologyKey) }) &&
		!slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return c.WhenUnsatisfiable == corev1.ScheduleAnyway && other(c.TopologyKey)
		})
}

// onNodes is a framework that tries a pod on some nodes alone.
type onNodes struct {
	framework.Framework
	nodes sets.Set[string]
}

// RunPreFilterPlugins leaves the nodes of the hint, unless a plugin names others.
func (f *onNodes) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, plugins := f.Framework.RunPreFilterPlugins(ctx, state, pod)
	if status.IsSuccess() && result.AllNodes() {
		result = &fwk.PreFilterResult{NodeNames: f.nodes}
	}
	return result, status, plugins
}

// Parallelizer has one goroutine: that many nodes take less time than starting sixteen.
func (f *onNodes) Parallelizer() fwk.Parallelizer { return parallelize.NewParallelizer(1) }

// shown is a framework that shows the scores of the nodes.
type shown struct {
	framework.Framework
	scored func([]fwk.NodePluginScores, []fwk.NodeInfo)
}

// RunScorePlugins shows the scores of all nodes that the pod fits, of those that kube-scheduler looks at.
func (f *shown) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := f.Framework.RunScorePlugins(ctx, state, pod, nodes)
	if status.IsSuccess() {
		f.scored(scores, nodes)
	}
	return scores, status
}

package incrementaltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/cputime"
)

// Plugin is what is compared.
type Plugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// Remembering is a plugin that remembers classes of pods.
type Remembering interface {
	Plugin
	// Remembers reports whether the pod would be filtered, and scored, by what is remembered of its class.
	Remembers(pod *corev1.Pod) (filters, scores bool)
}

// Seen is what cycles have shown. Its zero value is ready.
type Seen struct {
	// Filters and Scores count the cycles that were filtered and scored by what was remembered.
	Filters, Scores int
	// Answers counts the answers, without the names of nodes.
	Answers map[string]int
}

// Differed records that an answer was remembered wrongly, which nothing shows where it is checked and not used. Compare ends the test then.
func (w *World) Differed() { w.differed++ }

// Times returns how many times as fast a plugin is as another one for pods that are alike: with 1,000 nodes of three zones that have five of them each, and one more
// before each cycle. Where nodes come, a node comes before each cycle too. Medians of the CPU time of 50
// cycles, after as many in which the first answers of a plugin that remembers are checked.
func (w *World) Times(slow, fast Plugin, like func() *corev1.Pod, nodesCome bool, cycle func(p Plugin, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status) float64 {
	w.t.Helper()
	var names []string
	for i := range 1000 {
		names = append(names, w.AddNode(fmt.Sprint(i%3), "0").Name)
		for range 5 {
			w.AddPod(like(), names[i])
		}
	}
	took := map[Plugin][]time.Duration{}
	const untimed, timed = 50, 50
	for i := range untimed + timed {
		w.AddPod(like(), names[i])
		if nodesCome {
			w.AddNode(fmt.Sprint(i%3), "0")
		}
		nodes := w.Nodes()
		for _, p := range []Plugin{slow, fast} {
			state, asks, start := framework.NewCycleState(), like(), cputime.Used()
			status := cycle(p, state, asks, nodes)
			if i >= untimed {
				took[p] = append(took[p], cputime.Used()-start)
			}
			if !status.IsSuccess() {
				w.t.Fatal(status)
			}
		}
	}
	median := func(p Plugin) time.Duration { return slices.Sorted(slices.Values(took[p]))[len(took[p])/2] }
	return float64(median(slow)) / float64(median(fast))
}

// Answers returns what a plugin has to say of each node, also if one pod more were on the node, and if one of its pods were not. Scores are those of every
// second node, which stand for the nodes that pass the filters.
func (w *World) Answers(p Plugin, pod *corev1.Pod) (out []string) {
	w.t.Helper()
	ctx, state, nodes := context.Background(), framework.NewCycleState(), w.Nodes()
	if w.grouped {
		state.SetPodGroupSchedulingCycle(framework.NewCycleState())
	}
	_, status := p.PreFilter(ctx, state, pod, nodes)
	out = append(out, status.Code().String())
	if !status.IsSkip() {
		for i, node := range nodes {
			out = append(out, fmt.Sprint(node.Node().Name, " ", p.Filter(ctx, state, pod, node).Message()))
			out = append(out, w.otherwise(p, state, pod, nodes, i)...)
		}
	}
	var passed []fwk.NodeInfo
	for i := 0; i < len(nodes); i += 2 {
		passed = append(passed, nodes[i])
	}
	scores := make(fwk.NodeScoreList, len(passed))
	skip := p.PreScore(ctx, state, pod, passed).IsSkip()
	for i, node := range passed {
		if scores[i].Name = node.Node().Name; !skip {
			scores[i].Score, _ = p.Score(ctx, state, pod, node)
		}
	}
	if !skip {
		p.ScoreExtensions().NormalizeScore(ctx, state, pod, scores)
	}
	for _, s := range scores {
		out = append(out, fmt.Sprint(s.Name, " ", s.Score))
	}
	return out
}

// Same runs so many cycles, each for a pod of its own, and ends the test where the plugins have different answers.
func (w *World) Same(stock, ours Plugin, like func() *corev1.Pod, cycles int) {
	w.t.Helper()
	for range cycles {
		w.same(stock, ours, like())
	}
}

// same returns the answers of both plugins for a pod, and ends the test where they are different.
func (w *World) same(stock, ours Plugin, pod *corev1.Pod) []string {
	w.t.Helper()
	want, got := w.Answers(stock, pod), w.Answers(ours, pod)
	if !slices.Equal(want, got) {
		w.t.Fatal(fmt.Sprintf("pod %s/%s with labels %v, affinity %+v and constraints %+v:\ngot  %q\nwant %q",
			pod.Namespace, pod.Name, pod.Labels, pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints, got, want))
	}
	return got
}

// Compare runs so many rounds of some changes and two cycles for a pod, of which one is that of a pod group. A third of the pods are new, and the others like
// one before, or that one. It ends the test where the plugins have different answers, also where Kubernetes' was used as ours was remembered wrongly.
func (w *World) Compare(stock Plugin, ours Remembering, rounds int, seen *Seen) {
	w.t.Helper()
	if seen.Answers == nil {
		seen.Answers = map[string]int{}
	}
	var before []*corev1.Pod
	for round := range rounds {
		for range 1 + w.Random.IntN(4) {
			w.Step()
		}
		pod := w.next(before)
		before = append(before, pod)
		filters, scores := ours.Remembers(pod)
		if filters {
			seen.Filters++
		}
		if scores {
			seen.Scores++
		}
		for _, line := range w.same(stock, ours, pod) {
			_, answer, _ := strings.Cut(line, " ")
			seen.Answers[answer]++
		}
		w.InGroup(pod, func() { w.same(stock, ours, pod) })
		if w.differed > 0 {
			w.t.Fatal(fmt.Sprintf("round %d: what was remembered for pod %s differed: the log has the reason", round, pod.Name))
		}
	}
}

// next returns a new pod, or more often one like one before, or that one itself. Most are like one of the last ones: a namespace that changes makes new classes.
func (w *World) next(before []*corev1.Pod) *corev1.Pod {
	if len(before) < 5 || w.Random.IntN(3) == 0 {
		return w.Pod()
	}
	last := len(before)
	if w.Random.IntN(4) > 0 {
		last = min(last, 8)
	}
	pod := before[len(before)-1-w.Random.IntN(last)]
	if w.Random.IntN(4) > 0 {
		pod = pod.DeepCopy()
		pod.Name = w.Name("p")
		pod.UID = types.UID(pod.Name)
	}
	return pod
}

// otherwise returns what the plugin says of a node if there were a pod more on it, and if there were none.
func (w *World) otherwise(p Plugin, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, i int) []string {
	ctx, node := context.Background(), nodes[i]
	more, none := state.Clone(), state.Clone()
	for range 2 {
		like, err := framework.NewPodInfo(pod)
		w.check(err)
		p.PreFilterExtensions().AddPod(ctx, more, pod, like, node)
	}
	for _, other := range node.GetPods() {
		p.PreFilterExtensions().RemovePod(ctx, none, pod, other, node)
	}
	again := none.Clone()
	return []string{
		"with two more " + p.Filter(ctx, more, pod, node).Message(), "without pods " + p.Filter(ctx, again, pod, node).Message(),
	}
}

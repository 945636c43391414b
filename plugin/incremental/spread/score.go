package spread

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// score is what a cycle scores by. Nothing changes it, nor the class, before the next one.
type score struct {
	*class
	// weights are those of the constraints: how many topologies the nodes have of which one is chosen.
	weights []float64
	// ignored are the nodes that have not all of the topologies.
	ignored sets.Set[string]
}

// Clone returns the same: nothing changes the score within a cycle.
func (s *score) Clone() fwk.StateData { return s }

// PreScore counts the pods of each topology of the constraints by which the pod scores.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	var status *fwk.Status
	remembered := false
	p.memory.Do(klog.FromContext(ctx), func() { status, remembered = p.recallScores(state, pod, nodes) })
	if remembered && (!status.IsSuccess() || p.check.Scores(ctx, state, pod, nodes, status)) {
		return status
	}
	state.Delete(scored)
	return p.PodTopologySpread.PreScore(ctx, state, pod, nodes)
}

// recallScores writes what is remembered for the constraints by which the pod scores to the state of the cycle, brought up to date. remembered is false for a pod
// that is left to PodTopologySpread.
func (p *Plugin) recallScores(state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (status *fwk.Status, remembered bool) {
	of, ok := p.soft(pod)
	if !ok || state.IsPodGroupSchedulingCycle() {
		return nil, false
	}
	all, err := p.lister.NodeInfos().List()
	if err != nil {
		return nil, false
	}
	if len(all) == 0 || len(of.constraints) == 0 {
		return fwk.NewStatus(fwk.Skip), true
	}
	c, err := p.class(state, pod, of, all)
	if c == nil || err != nil {
		return nil, false
	}
	state.Write(scored, newScore(c, nodes))
	return nil, true
}

// soft returns the pod's constraints that score; ok is false for a pod of which nothing is remembered.
func (p *Plugin) soft(pod *corev1.Pod) (of needs, ok bool) {
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		return p.defaults.of(pod), p.remembers
	}
	of, err := needsOf(pod, corev1.ScheduleAnyway)
	return of, err == nil && p.remembers && !of.taints
}

// newScore weighs the constraints of a class by the nodes that passed the filters (initPreScoreState in Kubernetes' podtopologyspread/scoring.go).
func newScore(of *class, nodes []fwk.NodeInfo) *score {
	s := &score{class: of, weights: make([]float64, len(of.constraints)), ignored: sets.New[string]()}
	for _, info := range nodes {
		if node := info.Node(); !of.considers(node) {
			s.ignored.Insert(node.Name)
		}
	}
	for i := range of.constraints {
		key := of.constraints[i].key
		topologies := len(nodes) - len(s.ignored)
		if !of.constraints[i].later {
			values := sets.New[string]()
			for _, info := range nodes {
				if node := info.Node(); !s.ignored.Has(node.Name) {
					values.Insert(node.Labels[key])
				}
			}
			topologies = len(values)
		}
		s.weights[i] = math.Log(float64(topologies + 2))
	}
	return s
}

// Score sums the pods of the node's topologies. It is normalized later.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := read[*score](state, scored)
	if err != nil {
		return p.PodTopologySpread.Score(ctx, state, pod, info)
	}
	node := info.Node()
	if s.ignored.Has(node.Name) {
		return 0, nil
	}
	var sum float64
	for i := range s.constraints {
		of := &s.constraints[i]
		topology, ok := node.Labels[of.key]
		if !ok {
			continue
		}
		pods := s.counts[i].of[topology]
		if of.later {
			pods = s.on(info, of)
		}
		sum += float64(pods)*s.weights[i] + float64(of.maxSkew-1)
	}
	return int64(math.Round(sum)), nil
}

// on returns how many pods on a node the constraint counts, whether the node counts elsewhere or not.
func (s *score) on(info fwk.NodeInfo, of *constraint) int {
	n := 0
	for _, pod := range info.GetPods() {
		if s.counted(pod, of) {
			n++
		}
	}
	return n
}

// NormalizeScore gives the node with the most pods the least score. Nodes that are ignored have none.
func (p *Plugin) NormalizeScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, all fwk.NodeScoreList) *fwk.Status {
	s, err := read[*score](state, scored)
	if err != nil {
		return p.PodTopologySpread.NormalizeScore(ctx, state, pod, all)
	}
	least, most := int64(math.MaxInt64), int64(0)
	for _, of := range all {
		if !s.ignored.Has(of.Name) {
			least, most = min(least, of.Score), max(most, of.Score)
		}
	}
	for i := range all {
		switch {
		case s.ignored.Has(all[i].Name):
			all[i].Score = 0
		case most == 0:
			all[i].Score = fwk.MaxScore
		default:
			all[i].Score = fwk.MaxScore * (most + least - all[i].Score) / most
		}
	}
	return nil
}

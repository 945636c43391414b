package affinity

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/incremental/ledger"
)

// scores are the sums of weights by topology key and value.
type scores map[string]map[string]int64

// Clone returns the same: nothing changes the scores within a cycle.
func (s scores) Clone() fwk.StateData { return s }

// PreScore sums the weights of the preferred terms of the pod that other pods match, and of the terms of other pods that the pod matches.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	var status *fwk.Status
	remembered := false
	p.memory.Do(klog.FromContext(ctx), func() { status, remembered = p.recallScores(state, pod) })
	if remembered && p.check.Scores(ctx, state, pod, nodes, status) {
		return status
	}
	state.Delete(scored)
	return p.InterPodAffinity.PreScore(ctx, state, pod, nodes)
}

// recallScores writes what is remembered for the pod's class to the state of the cycle, brought up to date. remembered is false for a pod that is
// left to InterPodAffinity.
func (p *Plugin) recallScores(state fwk.CycleState, pod *corev1.Pod) (status *fwk.Status, remembered bool) {
	if state.IsPodGroupSchedulingCycle() {
		return nil, false
	}
	others, err := p.lister.NodeInfos().HavePodsWithAffinityList()
	if err != nil || len(others) < few && !prefers(pod) {
		return nil, false
	}
	of, err := p.class(pod)
	if of == nil || err != nil {
		return nil, false
	}
	all, err := p.lister.NodeInfos().List()
	if err != nil {
		return nil, false
	}
	p.memory.Update(state, all)
	of.sum(&p.memory.Ledger, all)
	if len(of.score) == 0 {
		return fwk.NewStatus(fwk.Skip), true
	}
	state.Write(scored, of.score)
	return nil, true
}

// sum brings the scores up to date.
func (c *class) sum(l *ledger.Ledger, all []fwk.NodeInfo) {
	changes, ok := l.Since(c.scoreAt)
	if !ok || c.score == nil {
		c.score, changes = scores{}, nil
		for _, node := range all {
			others := node.GetPodsWithAffinity()
			if len(c.pod.GetPreferredAffinityTerms())+len(c.pod.GetPreferredAntiAffinityTerms()) > 0 {
				others = node.GetPods()
			}
			for _, other := range others {
				c.weigh(other, node.Node(), 1)
			}
		}
	}
	for _, change := range changes {
		sign := int64(1)
		if change.Left {
			sign = -1
		}
		if change.Pod != nil {
			c.weigh(change.Pod, change.Node, sign)
		}
	}
	c.scoreAt = l.Now()
}

// weigh adds what another pod on a node is worth to pods of the class. A term of another pod is held against the labels of the namespace, one of
// the class is not, as it names its namespaces.
func (c *class) weigh(other fwk.PodInfo, node *corev1.Node, sign int64) {
	pod := c.pod.GetPod()
	own := func(terms []fwk.WeightedAffinityTerm, sign int64) {
		for i := range terms {
			if terms[i].Matches(other.GetPod(), nil) {
				c.score.add(node, terms[i].TopologyKey, sign*int64(terms[i].Weight))
			}
		}
	}
	theirs := func(terms []fwk.WeightedAffinityTerm, sign int64) {
		for i := range terms {
			if terms[i].Matches(pod, c.labels) {
				c.score.add(node, terms[i].TopologyKey, sign*int64(terms[i].Weight))
			}
		}
	}
	own(c.pod.GetPreferredAffinityTerms(), sign)
	own(c.pod.GetPreferredAntiAffinityTerms(), -sign)
	hard := other.GetRequiredAffinityTerms()
	for i := range hard {
		if hard[i].Matches(pod, c.labels) {
			c.score.add(node, hard[i].TopologyKey, sign*HardWeight)
		}
	}
	theirs(other.GetPreferredAffinityTerms(), sign)
	theirs(other.GetPreferredAntiAffinityTerms(), -sign)
}

// add adds to the score of the nodes that have the topology of this one. What is zero is left out: most pods of a node come and end.
func (s scores) add(node *corev1.Node, key string, weight int64) {
	value, ok := node.Labels[key]
	if !ok {
		return
	}
	if s[key] == nil {
		s[key] = map[string]int64{}
	}
	if s[key][value] += weight; s[key][value] == 0 {
		delete(s[key], value)
	}
	if len(s[key]) == 0 {
		delete(s, key)
	}
}

// of sums over the node's topologies.
func (s scores) of(node *corev1.Node) (sum int64) {
	for key, values := range s {
		if value, ok := node.Labels[key]; ok {
			sum += values[value]
		}
	}
	return sum
}

// Score sums over the node's topologies.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(scored)
	if err != nil {
		return p.InterPodAffinity.Score(ctx, state, pod, info)
	}
	by, _ := data.(scores)
	return by.of(info.Node()), nil
}

// NormalizeScore spreads the scores over the range that plugins share, the worst node at zero.
func (p *Plugin) NormalizeScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, all fwk.NodeScoreList) *fwk.Status {
	if _, err := state.Read(scored); err != nil {
		return p.InterPodAffinity.NormalizeScore(ctx, state, pod, all)
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range all {
		least, most = min(least, s.Score), max(most, s.Score)
	}
	for i := range all {
		share := 0.0
		if most > least {
			share = float64(fwk.MaxScore) * (float64(all[i].Score-least) / float64(most-least))
		}
		all[i].Score = int64(share)
	}
	return nil
}

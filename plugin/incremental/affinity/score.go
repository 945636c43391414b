package affinity

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// scores are the sums of weights by topology key and value.
type scores map[string]map[string]int64

// Clone returns the same: nothing changes the scores within a cycle.
func (s scores) Clone() fwk.StateData { return s }

// PreScore sums the weights of the preferred terms of the pod that other pods match, and of the terms of other pods that the pod matches.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if state.IsPodGroupSchedulingCycle() {
		return p.InterPodAffinity.PreScore(ctx, state, pod, nodes)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of, err := p.class(ctx, pod)
	if of == nil || err != nil {
		return p.InterPodAffinity.PreScore(ctx, state, pod, nodes)
	}
	all, err := p.lister.NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err)
	}
	p.ledger.Update(all)
	changes, ok := p.ledger.Since(of.scoreAt)
	if !ok || of.score == nil {
		of.score, changes = scores{}, nil
		for _, node := range all {
			others := node.GetPodsWithAffinity()
			if len(of.pod.GetPreferredAffinityTerms())+len(of.pod.GetPreferredAntiAffinityTerms()) > 0 {
				others = node.GetPods()
			}
			for _, other := range others {
				of.weigh(other, node, 1)
			}
		}
	}
	for _, c := range changes {
		sign := int64(1)
		if c.Left {
			sign = -1
		}
		of.weigh(c.Pod, c.Node, sign)
	}
	of.scoreAt = p.ledger.Now()
	if len(of.score) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scored, of.score)
	return nil
}

// weigh adds what another pod on a node is worth to pods of the class. A term of another pod is held against the labels of the namespace, one of
// the class is not, as it names its namespaces.
func (c *class) weigh(other fwk.PodInfo, on fwk.NodeInfo, sign int64) {
	node, pod := on.Node(), c.pod.GetPod()
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

// Score sums over the node's topologies.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(scored)
	if err != nil {
		return p.InterPodAffinity.Score(ctx, state, pod, info)
	}
	by, _ := data.(scores)
	var sum int64
	for key, values := range by {
		if value, ok := info.Node().Labels[key]; ok {
			sum += values[value]
		}
	}
	return sum, nil
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

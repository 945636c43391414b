package relations

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// peers are the pods of the input in groups of equal namespace and labels, which no rule distinguishes: each group is asked once.
type peers struct {
	index map[string]int
	// pods stand for the groups, one each.
	pods []*corev1.Pod
	// labelled are the groups by label: those whose pods have the key with the value.
	labelled map[labelValue][]int
	// class and node are the groups of the classes, and of the pods of each node.
	class []int
	node  [][]int
	// found are the results for terms, by their members.
	found map[string]matched
}

// labelValue is one label of a pod.
type labelValue struct{ key, value string }

// newPeers returns the groups of the input's pods.
func newPeers(in *Input) peers {
	p := peers{index: map[string]int{}, found: map[string]matched{}, labelled: map[labelValue][]int{}}
	known := map[*corev1.Pod]int{}
	var key []byte
	group := func(pod *corev1.Pod) int {
		if g, ok := known[pod]; ok {
			return g
		}
		key = appendSized(key[:0], pod.Namespace)
		for _, k := range slices.Sorted(maps.Keys(pod.Labels)) {
			key = appendSized(appendSized(key, k), pod.Labels[k])
		}
		g, ok := p.index[string(key)]
		if !ok {
			g = len(p.pods)
			p.index[string(key)] = g
			p.pods = append(p.pods, pod)
			for k, v := range pod.Labels {
				p.labelled[labelValue{k, v}] = append(p.labelled[labelValue{k, v}], g)
			}
		}
		known[pod] = g
		return g
	}
	for ci := range in.Classes {
		p.class = append(p.class, group(in.Classes[ci].Pod))
	}
	for i := range in.Nodes {
		var of []int
		for _, pod := range in.Nodes[i].Pods {
			of = append(of, group(pod))
		}
		p.node = append(p.node, of)
	}
	return p
}

// appendSized appends the string behind its length, so that no two lists of strings look alike. Labels may be most of a pod's megabyte,
// and quoting them takes ten times as long.
func appendSized(key []byte, s string) []byte {
	return append(append(strconv.AppendInt(key, int64(len(s)), 10), ':'), s...)
}

// candidates returns the groups among which those are that the selector matches: those with one of the values that its most selective
// requirement lists. It is false for a selector without such a requirement.
func (p *peers) candidates(s labels.Selector) ([]int, bool) {
	requirements, selectable := s.Requirements()
	if !selectable {
		return nil, true
	}
	var best []int
	found := false
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
		default:
			continue
		}
		var some []int
		for _, v := range r.ValuesUnsorted() {
			some = append(some, p.labelled[labelValue{r.Key(), v}]...)
		}
		if !found || len(some) < len(best) {
			best, found = some, true
		}
	}
	return best, found
}

// matched returns the groups and classes that the term matches.
func (p *peers) matched(t *Term) matched {
	key := t.members()
	out, ok := p.found[key]
	if ok {
		return out
	}
	out = matched{bitset.New(len(p.pods)), bitset.New(len(p.class))}
	if some, ok := p.candidates(t.selector); ok {
		for _, g := range some {
			if t.Matches(p.pods[g]) {
				out.groups.Add(g)
			}
		}
	} else {
		for g, pod := range p.pods {
			if t.Matches(pod) {
				out.groups.Add(g)
			}
		}
	}
	if out.groups.Empty() {
		p.found[key] = out
		return out
	}
	for ci, g := range p.class {
		if out.groups.Has(g) {
			out.classes.Add(ci)
		}
	}
	p.found[key] = out
	return out
}

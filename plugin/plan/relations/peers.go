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
	// keys and key are a pod's label keys and its group's key in index, while it is looked up.
	keys []string
	key  []byte
}

// labelValue is one label of a pod.
type labelValue struct{ key, value string }

// newPeers returns the groups of the classes, and of the pods on nodes if any rule counts them.
func newPeers(in *Input, counted bool) peers {
	p := peers{index: map[string]int{}, found: map[string]matched{}, labelled: map[labelValue][]int{}}
	// A class's pod may be on nodes many times, as one that a plan has placed there.
	known := make(map[*corev1.Pod]int, len(in.Classes))
	for ci := range in.Classes {
		g := p.group(in.Classes[ci].Pod)
		known[in.Classes[ci].Pod] = g
		p.class = append(p.class, g)
	}
	if !counted {
		return p
	}
	p.node = make([][]int, len(in.Nodes))
	for i := range in.Nodes {
		of := make([]int, 0, len(in.Nodes[i].Pods))
		for _, pod := range in.Nodes[i].Pods {
			g, ok := known[pod]
			if !ok {
				g = p.group(pod)
			}
			of = append(of, g)
		}
		p.node[i] = of
	}
	return p
}

// group returns the pod's group, a new one for the first of its kind.
func (p *peers) group(pod *corev1.Pod) int {
	p.keys = slices.AppendSeq(p.keys[:0], maps.Keys(pod.Labels))
	slices.Sort(p.keys)
	key := appendSized(p.key[:0], pod.Namespace)
	for _, k := range p.keys {
		key = appendSized(appendSized(key, k), pod.Labels[k])
	}
	p.key = key
	g, ok := p.index[string(key)]
	if !ok {
		g = len(p.pods)
		p.index[string(key)] = g
		p.pods = append(p.pods, pod)
		for k, v := range pod.Labels {
			p.labelled[labelValue{k, v}] = append(p.labelled[labelValue{k, v}], g)
		}
	}
	return g
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

package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// scope is the namespaces that a rule speaks of. Equal keys mean equal namespaces.
type scope struct {
	key string
	has func(namespace string) bool
}

func only(namespace string) scope {
	return scope{"=" + namespace, func(ns string) bool { return ns == namespace }}
}

// nobody is no namespace at all.
func nobody() scope { return scope{"0", func(string) bool { return false }} }

// peers are the pods of the input in groups of equal namespace and labels, which no rule tells apart: each group is asked once.
type peers struct {
	index map[string]int
	// pods stand for the groups, one each.
	pods []*corev1.Pod
	// labelled are the groups by label: those whose pods have the key with the value.
	labelled map[labelValue][]int
	// class and node are the groups of the classes, and of the pods of each node.
	class []int
	node  [][]int
	// matched is what was found for rules, by whom they speak of.
	matched map[string]matched
}

// labelValue is one label of a pod.
type labelValue struct{ key, value string }

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

// groupPeers finds the groups.
func (re *relations) groupPeers() {
	p := peers{index: map[string]int{}, matched: map[string]matched{}, labelled: map[labelValue][]int{}}
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
	for ci := range re.classes {
		p.class = append(p.class, group(re.classes[ci].pod))
	}
	for i := range re.in.Nodes {
		var of []int
		for _, pod := range re.in.Nodes[i].Pods {
			of = append(of, group(pod))
		}
		p.node = append(p.node, of)
	}
	re.peers = p
}

// appendSized appends the string behind its length, so that no two lists of strings look alike. Labels may be most of a pod's megabyte,
// and quoting them takes ten times as long.
func appendSized(key []byte, s string) []byte {
	return append(append(strconv.AppendInt(key, int64(len(s)), 10), ':'), s...)
}

// whom tells rules apart that speak of different pods.
func (r *rule) whom() string {
	var b strings.Builder
	put := func(r *rule) {
		b.WriteString(strconv.Quote(r.inNS.key))
		b.WriteString(strconv.Quote(r.selector.String()))
	}
	put(r)
	for i := range r.also {
		put(&r.also[i])
	}
	return b.String()
}

// matched are the groups and the classes that a rule speaks of. Nobody changes them.
type matched struct{ groups, classes bitset.Set }

// matched finds whom the rule speaks of.
func (re *relations) matched(r *rule) matched {
	key := r.whom()
	out, ok := re.peers.matched[key]
	if ok {
		return out
	}
	out = matched{bitset.New(len(re.peers.pods)), bitset.New(len(re.classes))}
	if some, ok := re.peers.candidates(r.selector); ok {
		for _, g := range some {
			if r.matches(re.peers.pods[g]) {
				out.groups.Add(g)
			}
		}
	} else {
		for g, pod := range re.peers.pods {
			if r.matches(pod) {
				out.groups.Add(g)
			}
		}
	}
	if out.groups.Empty() {
		re.peers.matched[key] = out
		return out
	}
	for ci, g := range re.peers.class {
		if out.groups.Has(g) {
			out.classes.Add(ci)
		}
	}
	re.peers.matched[key] = out
	return out
}

package relations

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// Groups finds co-located groups: classes with required affinity by hostname, and those that they have to share a node with.
type Groups struct {
	relations *Relations
	// most is how many pods the roomiest node has room for.
	most int
	// lost are the classes that will find no node, waiting those that require others.
	lost, waiting bitset.Set
}

// Follows reports whether pods of the class require other pods on their node.
func (re *Relations) Follows(ci int) bool {
	for _, i := range re.concerns[ci].owned {
		if r := &re.rules[i]; r.kind == Affinity && isHost(r.key) {
			return true
		}
	}
	return false
}

// Groups returns what finds the co-located groups of the pods that are left, by class. Classes that are unfit fit no node; canHave says
// which labels nodes may have; most is how many pods the roomiest node has room for. It is nil where no class needs others on its node.
func (re *Relations) Groups(left []int, unfit bitset.Set, canHave func(key string) bool, most int) *Groups {
	if !slices.ContainsFunc(re.rules, func(r Rule) bool { return r.kind == Affinity && isHost(r.key) }) {
		return nil
	}
	g := &Groups{relations: re, most: most, lost: hopeless(re.rules, left, unfit, canHave), waiting: bitset.New(len(re.in.Classes))}
	for i := range re.rules {
		if r := &re.rules[i]; r.kind == Affinity {
			g.waiting.Add(r.owner)
		}
	}
	return g
}

// Lost reports whether the class will find no node.
func (gr *Groups) Lost(ci int) bool { return gr.lost.Has(ci) }

// Of returns the class and one class to join for each of its rules, and theirs; false if there is none, or if they are more than any node
// has room for.
func (gr *Groups) Of(ci int, left []int) ([]int, bool) {
	re := gr.relations
	group, in := []int{ci}, bitset.New(len(re.in.Classes))
	in.Add(ci)
	for next := 0; next < len(group); next++ {
		for _, i := range re.concerns[group[next]].owned {
			r := &re.rules[i]
			if r.kind != Affinity || !isHost(r.key) {
				continue
			}
			other, ok := gr.toJoin(r, in, left)
			if !ok || len(group) >= gr.most {
				return group, false
			}
			if other >= 0 {
				group = append(group, other)
				in.Add(other)
			}
		}
	}
	return gr.closed(group, in, left), true
}

// closed adds to a group in which each class follows another one all those that can follow no other group: the first pod to
// come decides for a node, and then no other node will do.
func (gr *Groups) closed(group []int, in bitset.Set, left []int) []int {
	re := gr.relations
	if slices.ContainsFunc(group, func(g int) bool { return !re.Follows(g) }) {
		return group
	}
	for i := 0; i < len(re.rules) && len(group) <= gr.most; i++ {
		r := &re.rules[i]
		if r.kind != Affinity || !isHost(r.key) || left[r.owner] == 0 || in.Has(r.owner) || !r.classes.Meets(in) {
			continue
		}
		near, others := false, false
		r.classes.Each(func(ci int) {
			if left[ci] > 0 {
				near = near || in.Has(ci)
				others = others || !re.Follows(ci)
			}
		})
		if near && !others {
			group = append(group, r.owner)
			in.Add(r.owner)
			i = -1 // Others may follow this one.
		}
	}
	return group
}

// toJoin returns the class to join because of the rule; -1 where the group has one already. A class that only its own pods match
// founds a group of its own if no others are planned that match: else it has to join those.
func (gr *Groups) toJoin(r *Rule, group bitset.Set, left []int) (int, bool) {
	found, had := -1, false
	r.classes.Each(func(ci int) {
		switch {
		case ci == r.owner:
		case group.Has(ci):
			had = true
		case left[ci] == 0 || gr.lost.Has(ci):
		// Best one that does not wait for others itself.
		case found < 0 || gr.waiting.Has(found) && !gr.waiting.Has(ci):
			found = ci
		}
	})
	if had {
		return -1, true
	}
	if found >= 0 {
		return found, true
	}
	return -1, r.classes.Has(r.owner) && r.total == 0
}

// hopeless returns the classes that will find no node: they are unfit, or require others that do not exist, are not planned or are hopeless
// themselves.
func hopeless(rules []Rule, left []int, unfit bitset.Set, canHave func(string) bool) bitset.Set {
	out := unfit.Clone()
	for again := true; again; {
		again = false
		for i := range rules {
			if r := &rules[i]; !out.Has(r.owner) && r.unmeetable(left, out, canHave) {
				out.Add(r.owner)
				again = true
			}
		}
	}
	return out
}

// unmeetable reports whether the rule requires a label that no node has, or pods that exist nowhere and are not planned either, but for the
// lost.
func (r *Rule) unmeetable(left []int, lost bitset.Set, canHave func(string) bool) bool {
	switch {
	case r.kind != Affinity:
		return false
	case !canHave(r.key):
		return true
	case r.total > 0 || r.classes.Has(r.owner):
		return false
	}
	some := false
	r.classes.Each(func(ci int) { some = some || left[ci] > 0 && !lost.Has(ci) })
	return !some
}

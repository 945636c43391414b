package consolidate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// minute is the unit in which times are shown.
const minute = time.Minute

// improveFails is how many changes of a set that earn no more end the search, minGain the least that counts as more, in USD.
const (
	improveFails = 4
	minGain      = 1e-6
)

// spareRounds is in how many of them a move that does not pay keeps a part of its nodes.
const spareRounds = 4

// split makes one move of each group of nodes whose pods share replacements: the groups do not depend on each other.
func (s *search) split(going []string, a Answer) []Move {
	onto := map[string]int{} // replacement by pod
	for i, r := range a.Replacements {
		for _, p := range r.Pods {
			onto[p] = i
		}
	}
	group := make([]int, len(going)) // of each node: the index of its group's first node
	first := map[int]int{}           // the first node with a pod on a replacement
	for i, name := range going {
		group[i] = i
		for _, p := range s.nodes[name].Pods {
			r, ok := onto[p.Name]
			if !ok {
				continue
			}
			if j, seen := first[r]; seen {
				join(group, i, j)
			} else {
				first[r] = i
			}
		}
	}
	moves := map[int]*Move{}
	for i, name := range going {
		root := find(group, i)
		m := moves[root]
		if m == nil {
			m = &Move{Targets: map[string]string{}}
			moves[root] = m
		}
		n := s.nodes[name]
		m.Nodes, m.Avoid = append(m.Nodes, *n), s.avoid
		for _, p := range n.Pods {
			if r, ok := onto[p.Name]; ok {
				m.Targets[p.Name] = a.Replacements[r].Name
			} else {
				m.Targets[p.Name] = a.Existing[p.Name]
			}
		}
	}
	for r, i := range first {
		m := moves[find(group, i)]
		m.Replacements = append(m.Replacements, a.Replacements[r])
	}
	out := make([]Move, 0, len(moves))
	placed := loads{}
	for _, root := range slices.Sorted(maps.Keys(moves)) {
		m := moves[root]
		slices.SortFunc(m.Nodes, func(x, y Node) int { return strings.Compare(x.Name, y.Name) })
		slices.SortFunc(m.Replacements, func(x, y Replacement) int { return strings.Compare(x.Name, y.Name) })
		s.price(m, placed)
		out = append(out, *m)
	}
	return out
}

// price sets what the move saves and costs, with what earlier moves of the same answer place.
func (s *search) price(m *Move, placed loads) {
	evictions := 0.0
	back := s.backToSpot(m)
	m.Surplus = s.surplus(m, placed)
	m.Saving = -m.Surplus
	for i := range m.Nodes {
		m.Saving += m.Nodes[i].Price
		evictions += m.Nodes[i].cost(s.o, back) + m.Nodes[i].evictions()*s.o.EvictionCost*m.interrupted()
	}
	twice := 0.0
	for _, r := range m.Replacements {
		m.Saving -= r.Price
		twice += r.Price
	}
	m.Cost = evictions + twice*s.o.Overlap.Hours()
	m.Scores = s.scores(m)
}

// backToSpot reports whether spot nodes replace on-demand nodes, and sets how long they are expected to last.
func (s *search) backToSpot(m *Move) bool {
	if !slices.ContainsFunc(m.Nodes, func(n Node) bool { return !catalog.CapacityTypeOf(n.CapacityType).Interruptible }) {
		return false
	}
	back := false
	for _, r := range m.Replacements {
		if !catalog.CapacityTypeOf(r.CapacityType).Interruptible {
			continue
		}
		back = true
		if lasts, ok := s.o.Lasts[SpotOffering{r.InstanceType, r.Zone}]; ok && (m.Lasts == 0 || lasts < m.Lasts) {
			m.Lasts = lasts
		}
	}
	return back
}

// short says that spot nodes of the move are not expected to last until it has paid, if that is why it does not pay.
func (s *search) short(m *Move) string {
	if m.within(s.o) == s.o.Payback {
		return ""
	}
	return fmt.Sprintf(", or than EC2 is expected to take its spot nodes back (%s)", m.Lasts.Round(minute))
}

// loads is the CPU that pods of earlier moves request on existing nodes, in thousandths, by the nodes' names.
type loads map[string]int64

// surplus adds the move's pods to the loads, and returns the USD per hour that the existing nodes they move to then cost more.
func (s *search) surplus(m *Move, l loads) float64 {
	more, usd := map[string]int64{}, 0.0
	for i := range m.Nodes {
		for _, p := range m.Nodes[i].Pods {
			if target := m.Targets[p.Name]; s.nodes[target] != nil {
				more[target] += p.CPU
				usd += s.nodes[target].LossPerPod
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		n := s.nodes[name]
		before := n.CPU + l[name]
		usd += n.Charges.Burst(before+more[name]) - n.Charges.Burst(before)
		l[name] += more[name]
	}
	return usd
}

// earning returns the set with what the moves earn.
func (s *search) earning(moves []Move) set {
	out := set{moves: moves}
	for _, m := range moves {
		out.earned += m.Saving*m.within(s.o).Hours() - m.Cost
	}
	return out
}

// decision puts the empty nodes before the moves that were found, and adds the reasons of the nodes that stay.
func (s *search) decision(best set, candidates []string) Decision {
	out := Decision{Questions: s.questions, Rejected: s.rejected, TimedOut: s.timedOut}
	for _, name := range s.empty {
		n := *s.nodes[name]
		out.Moves = append(out.Moves, Move{Nodes: []Node{n}, Targets: map[string]string{}, Saving: n.Price})
	}
	slices.SortFunc(best.moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(b.Saving, a.Saving), strings.Compare(a.Nodes[0].Name, b.Nodes[0].Name))
	})
	goes := map[string]bool{}
	for _, m := range best.moves {
		out.Moves = append(out.Moves, m)
		for _, n := range m.Nodes {
			goes[n.Name] = true
		}
	}
	unlooked := map[string]bool{}
	for _, name := range candidates {
		switch {
		case goes[name] || s.kept[name] != "":
		case s.timedOut:
			unlooked[name] = true
			s.kept[name] = "there was no time to find out whether its pods cost less elsewhere"
		default:
			s.kept[name] = "no set of nodes with it was found that saves more"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.kept)) {
		if !goes[name] {
			out.Kept = append(out.Kept, Kept{Node: name, Reason: s.kept[name], Unlooked: unlooked[name]})
		}
	}
	return out
}

// halves asks about all of the nodes, then about the first half of them and so on, and returns the set that earns most.
func (s *search) halves(ctx context.Context, names []string) (set, error) {
	var best set
	for size := len(names); size > 0 && s.questions < s.o.Questions && !s.timedOut; size /= 2 {
		found, err := s.settle(ctx, names[:size])
		if err != nil {
			return set{}, err
		}
		if found.earned > best.earned {
			best = found
		}
	}
	return s.improve(ctx, best, names)
}

// improve adds nodes to a set, and takes nodes out of it, one after the other, while that earns more. The most wasteful nodes that are not in it are
// tried first, and of those in it the least wasteful ones.
func (s *search) improve(ctx context.Context, best set, names []string) (set, error) {
	if best.earned <= 0 {
		return best, nil
	}
	tried, rejected := map[string]bool{}, s.rejected
	defer func() { s.rejected = rejected }()
	for fails := 0; fails < improveFails && s.questions < s.o.Questions && !s.timedOut; {
		name, next := s.change(best, names, tried)
		if name == "" {
			break
		}
		tried[name] = true
		found, err := s.settle(ctx, next)
		if err != nil {
			return set{}, err
		}
		if fails++; found.earned > best.earned+minGain {
			best, fails = found, 0
		}
	}
	return best, nil
}

// change returns the next set to try, and the node that is added to the best one or taken out of it; empty if all were tried.
func (s *search) change(best set, names []string, tried map[string]bool) (string, []string) {
	in := map[string]bool{}
	for _, m := range best.moves {
		for _, n := range m.Nodes {
			in[n.Name] = true
		}
	}
	have := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !in[name] })
	for _, name := range names {
		if !in[name] && !tried[name] && !s.slow[name] {
			return name, append(have, name)
		}
	}
	for _, name := range slices.Backward(have) {
		if !tried[name] && len(have) > 1 {
			return name, slices.DeleteFunc(have, func(other string) bool { return other == name })
		}
	}
	return "", nil
}

// spared returns which nodes of a move that does not pay stay: all of them, or in the first rounds as many as cost what it would launch, for that is the
// room that lacks. Those stay whose evictions weigh most. The others are asked about again.
func spared(m *Move, round int) []Node {
	if round >= spareRounds {
		return m.Nodes
	}
	lacks := 0.0
	for _, r := range m.Replacements {
		lacks += r.Price
	}
	out := slices.Clone(m.Nodes)
	slices.SortFunc(out, func(a, b Node) int {
		return cmp.Or(cmp.Compare(b.evictions(), a.evictions()), strings.Compare(a.Name, b.Name))
	})
	for i := range out {
		if lacks -= out[i].Price; lacks <= 0 && len(m.Replacements) > 0 {
			return out[:i+1]
		}
	}
	return out
}

// find and join keep groups as trees of indices.
func find(group []int, i int) int {
	for group[i] != i {
		group[i] = group[group[i]]
		i = group[i]
	}
	return i
}

func join(group []int, i, j int) {
	a, b := find(group, i), find(group, j)
	group[max(a, b)] = min(a, b)
}

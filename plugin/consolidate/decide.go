package consolidate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// settleRounds is how often a set of nodes is asked about again, without those that turned out to be worth keeping.
const settleRounds = 6

// Decide looks for the sets of nodes whose removal saves most. It asks about all nodes that may be removed at once and keeps
// those that the planner would buy again. Then it asks about ever smaller sets of the most wasteful nodes. It takes the set that
// earns most within Options.Payback.
func Decide(ctx context.Context, fleet []Node, o Options, ask Ask) (Decision, error) {
	s := &search{o: o, ask: ask, kept: map[string]string{}, nodes: map[string]*Node{}, totals: map[string]total{}, going: map[string]int{}, slow: map[string]bool{}}
	var candidates []string
	for i := range fleet {
		n := &fleet[i]
		s.nodes[n.Name] = n
		t := s.totals[n.NodePool]
		s.totals[n.NodePool] = total{price: t.price + n.Price, disruption: t.disruption + n.disruption()}
		switch why := untouchable(n); {
		case why != "":
			s.kept[n.Name] = why
			s.soonGoes(n)
		case n.empty():
			s.empty = append(s.empty, n.Name)
		default:
			candidates = append(candidates, n.Name)
		}
	}
	s.limitEmpty()
	best, err := s.best(ctx, candidates)
	if err != nil {
		return Decision{}, err
	}
	return s.decision(best, candidates), nil
}

// untouchable returns why a node may not be removed; empty if it may.
func untouchable(n *Node) string {
	switch {
	case n.Blocked != "":
		return n.Blocked
	case n.Policy == WhenEmpty && !n.empty():
		return "NodePool " + n.NodePool + " gives up empty nodes only (consolidationPolicy WhenEmpty)"
	}
	return ""
}

// total is the sum over the nodes of a NodePool.
type total struct{ price, disruption float64 }

// search is the state of one decision.
type search struct {
	o      Options
	ask    Ask
	nodes  map[string]*Node
	empty  []string
	kept   map[string]string
	totals map[string]total
	// going counts the nodes that are chosen already, by NodePool.
	going     map[string]int
	questions int
	rejected  []Score
	timedOut  bool
	// slow are nodes about which this decision asks no more.
	slow map[string]bool
	// avoid are nodes that a later decision will remove.
	avoid []string
	// soon are the nodes with pods that the next decision may remove, soonEmpty those without. What pods they have then is not known yet.
	soon, soonEmpty []string
}

// waitsForOthers is why a node stays whose move is unsettled.
const waitsForOthers = "it would go with nodes that pods come to or leave now: the next decision sees what is left there"

// unsettled reports whether a move is about a node that may go soon, or puts pods on one: pods come to it now or leave it, and the next decision sees more.
func (s *search) unsettled(m *Move) bool {
	for _, target := range m.Targets {
		if n := s.nodes[target]; n != nil && n.Soon {
			return true
		}
	}
	return slices.ContainsFunc(m.Nodes, func(n Node) bool { return n.Soon })
}

// settled divides the nodes of moves into those whose move may begin, and those that wait for nodes which may go soon.
func (s *search) settled(moves []Move) (goes map[string]bool, waits []string) {
	goes = map[string]bool{}
	for i := range moves {
		unsettled := s.unsettled(&moves[i])
		for _, n := range moves[i].Nodes {
			if goes[n.Name] = !unsettled; unsettled {
				waits = append(waits, n.Name)
			}
		}
	}
	return goes, waits
}

// soonGoes notes a blocked node if the next decision may remove it.
func (s *search) soonGoes(n *Node) {
	switch {
	case !n.Soon:
	case n.empty():
		s.soonEmpty = append(s.soonEmpty, n.Name)
	case n.Policy != WhenEmpty:
		s.soon = append(s.soon, n.Name)
	}
}

// set is a set of nodes to remove, as moves.
type set struct {
	moves []Move
	// earned is what the moves have earned at the end of the payback time, in USD.
	earned float64
}

// best returns the set that earns most. If the budgets do not let all candidates go at once, or others may go soon, it first finds out which would go in
// the end, so that pods move once, and not onto nodes that are removed next. If that earns nothing, it tries as many of the most
// wasteful candidates as may go, and then the next ones, until a set earns something. No pods move to nodes that may go soon.
func (s *search) best(ctx context.Context, candidates []string) (set, error) {
	rest, all := s.wasteful(candidates), s.wasteful(slices.Concat(candidates, s.soon))
	if now, later := s.allowed(all); len(now) > 0 && len(later)+len(s.soonEmpty) > 0 {
		if best, done, err := s.towards(ctx, all); err != nil || done || s.timedOut {
			return best, err
		}
	}
	s.avoid = slices.Concat(s.soon, s.soonEmpty)
	defer func() { s.avoid = nil }()
	for len(rest) > 0 && s.questions < s.o.Questions && !s.timedOut {
		now, later := s.allowed(rest)
		if len(now) == 0 {
			s.overBudget(rest)
			break
		}
		best, err := s.halves(ctx, now)
		if err != nil {
			return set{}, err
		}
		if best.earned > 0 {
			s.overBudget(later)
			return best, nil
		}
		rest = later
	}
	return set{}, nil
}

// wasteful returns the nodes with the most wasteful ones first.
func (s *search) wasteful(names []string) []string {
	out := slices.Clone(names)
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.waste(b), s.waste(a)), strings.Compare(a, b))
	})
	return out
}

// towards finds the nodes that would be removed if all of them could be at once, and chooses as many of them as may go now. It is done if that earns
// something, or if moves wait for nodes that may go soon.
func (s *search) towards(ctx context.Context, order []string) (best set, done bool, err error) {
	s.avoid = s.soonEmpty
	defer func() { s.avoid = nil }()
	end, err := s.settle(ctx, order)
	if err != nil {
		return set{}, false, err
	}
	goes, waits := s.settled(end.moves)
	now, later := s.allowed(slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !goes[name] }))
	s.avoid = slices.Concat(later, waits, s.soon, s.soonEmpty)
	best, err = s.halves(ctx, now)
	if best.earned > 0 {
		s.overBudget(later)
	}
	for _, name := range waits {
		if !s.nodes[name].Soon {
			s.kept[name] = waitsForOthers
		}
	}
	return best, best.earned > 0 || len(waits) > 0, err
}

// limitEmpty keeps the empty nodes beyond what the budgets allow: the cheapest ones.
func (s *search) limitEmpty() {
	slices.SortFunc(s.empty, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.nodes[b].Price, s.nodes[a].Price), strings.Compare(a, b))
	})
	s.empty = slices.DeleteFunc(s.empty, func(name string) bool {
		if s.nodes[name].Disrupted {
			return false
		}
		pool := s.nodes[name].NodePool
		limit, ok := s.o.Allowed[pool]
		if ok && s.going[pool] >= limit.Empty {
			s.overBudget([]string{name})
			return true
		}
		s.going[pool]++
		return false
	})
}

// OverBudget returns the reason of a node that the budgets of its NodePool keep.
func OverBudget(nodePool string) string {
	return "the budgets of NodePool " + nodePool + " let no more nodes go now"
}

func (s *search) overBudget(names []string) {
	for _, name := range names {
		if n := s.nodes[name]; !n.Soon {
			s.kept[name] = OverBudget(n.NodePool)
		}
	}
}

// allowed divides the nodes into those that may be removed now, within each NodePool's budgets beside the empty nodes, and
// the others.
func (s *search) allowed(order []string) (now, later []string) {
	going := maps.Clone(s.going)
	for _, name := range order {
		pool := s.nodes[name].NodePool
		if limit, ok := s.o.Allowed[pool]; ok && going[pool] >= limit.Underutilized || s.nodes[name].Soon {
			later = append(later, name)
			continue
		}
		going[pool]++
		now = append(now, name)
	}
	return now, later
}

// waste returns the price of the unused part of a node, per eviction that its removal costs.
func (s *search) waste(name string) float64 {
	n := s.nodes[name]
	return n.Price * (1 - n.Used) / (1 + n.disturbs())
}

// settle asks about the nodes, and again without those that are worth keeping, until every move that is left pays.
func (s *search) settle(ctx context.Context, names []string) (set, error) {
	going := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return s.slow[name] })
	for round := 0; len(going) > 0 && round < settleRounds && s.questions < s.o.Questions; round++ {
		s.questions++
		answer, err := s.ask(ctx, slices.Concat(s.empty, going), s.avoid)
		if errors.Is(err, context.DeadlineExceeded) {
			s.timedOut = true
			return set{}, nil
		}
		if err != nil {
			return set{}, err
		}
		stay := s.stranded(going, answer)
		s.leaveOut(stay, answer)
		if len(stay) == 0 {
			stay = s.boughtAgain(going, answer)
		}
		var moves []Move
		if len(stay) == 0 {
			moves = s.split(going, answer)
			for i := range moves {
				if why := s.unpaid(&moves[i], answer); why != "" {
					for _, n := range spared(&moves[i], round) {
						stay[n.Name] = why
					}
				}
			}
		}
		if len(stay) == 0 {
			return s.earning(moves), nil
		}
		for name, why := range stay {
			if !s.nodes[name].Soon {
				s.kept[name] = why
			}
		}
		going = slices.DeleteFunc(going, func(name string) bool { return stay[name] != "" })
	}
	return set{}, nil
}

// leaveOut records nodes whose pods took longer to plan than a question may. The decision asks about them no more.
func (s *search) leaveOut(stay map[string]string, a Answer) {
	if !a.CutShort {
		return
	}
	for name, why := range stay {
		s.slow[name] = true
		stay[name] = "planning its pods takes longer than a question may: " + why
	}
}

// stranded returns the nodes with a pod that would find no other, with the reason.
func (s *search) stranded(going []string, a Answer) map[string]string {
	stay := map[string]string{}
	for _, name := range going {
		for _, p := range s.nodes[name].Pods {
			if why, ok := a.Unplaced[p.Name]; ok {
				stay[name] = fmt.Sprintf("pod %s would find no other node: %s", p.Name, why)
				break
			}
		}
	}
	return stay
}

// boughtAgain returns nodes for which the planner buys an equal one, with the reason. They are as many as it buys of that offer,
// those first whose evictions weigh most.
func (s *search) boughtAgain(going []string, a Answer) map[string]string {
	order := slices.Clone(going)
	slices.SortFunc(order, func(x, y string) int {
		return cmp.Or(cmp.Compare(s.nodes[y].evictions(), s.nodes[x].evictions()), strings.Compare(x, y))
	})
	stay := map[string]string{}
	for _, r := range a.Replacements {
		for _, name := range order {
			n := s.nodes[name]
			if stay[name] == "" && n.equal(r.Offer) && n.Price <= r.Price*(1+1e-9)+s.o.MinSaving {
				stay[name] = fmt.Sprintf("an equal node (%s, %s) would be bought for its pods", n.InstanceType, n.CapacityType) + s.settling(n.Offer)
				break
			}
		}
	}
	return stay
}

// unpaid returns why a move of an answer is not worth it, or cannot be made; empty if it is worth it.
func (s *search) unpaid(m *Move, a Answer) string {
	if !s.o.SpotToSpot && spotToSpot(m) {
		return "spot nodes are replaced by other spot nodes only where that is allowed (SpotToSpotConsolidation)"
	}
	if why := s.troubled(m); why != "" {
		return why
	}
	switch {
	case m.Saving <= 0:
		return "its pods cost nothing less elsewhere"
	case m.Saving < s.o.MinSaving:
		return fmt.Sprintf("moving its pods saves %.4f USD/h, less than the least that counts (%.4f)", m.Saving, s.o.MinSaving)
	case m.Payback() > m.within(s.o):
		return fmt.Sprintf("moving its pods saves %.4f USD/h and pays back its cost of %.3f USD after %s, later than %s",
			m.Saving, m.Cost, m.Payback().Round(minute), s.o.Payback) + s.short(m)
	}
	if len(m.Replacements) > 0 && a.Refused != nil {
		if why := a.Refused(m, s.o); why != "" {
			return why
		}
	}
	return s.unbalanced(m)
}

// spotToSpot reports whether the move removes spot nodes only and launches a spot node.
func spotToSpot(m *Move) bool {
	spot := func(capacityType string) bool { return catalog.CapacityTypeOf(capacityType).Interruptible }
	return !slices.ContainsFunc(m.Nodes, func(n Node) bool { return !spot(n.CapacityType) }) &&
		slices.ContainsFunc(m.Replacements, func(r Replacement) bool { return spot(r.CapacityType) })
}

// troubled returns why the move would go back to spot too early; empty if it would not.
func (s *search) troubled(m *Move) string {
	spot := func(capacityType string) bool { return catalog.CapacityTypeOf(capacityType).Interruptible }
	if !slices.ContainsFunc(m.Nodes, func(n Node) bool { return !spot(n.CapacityType) }) {
		return ""
	}
	for _, r := range m.Replacements {
		if until, ok := s.o.Troubled[SpotOffering{r.InstanceType, r.Zone}]; ok && spot(r.CapacityType) {
			return fmt.Sprintf("EC2 took %s spot nodes in %s back or refused them: on-demand nodes are replaced by those from %s on, if it does not again",
				r.InstanceType, r.Zone, until.UTC().Format("15:04:05 UTC"))
		}
	}
	return ""
}

// settling says from when on spot nodes of an on-demand node's type are planned again, if one of its offerings has not settled.
func (s *search) settling(on Offer) string {
	var first time.Time
	for o, until := range s.o.Troubled {
		if o.InstanceType == on.InstanceType && (first.IsZero() || until.Before(first)) {
			first = until
		}
	}
	if first.IsZero() || catalog.CapacityTypeOf(on.CapacityType).Interruptible {
		return ""
	}
	return fmt.Sprintf("; EC2 took %s spot nodes back or refused them: they are planned again from %s on, if it does not again",
		on.InstanceType, first.UTC().Format("15:04:05 UTC"))
}

package plan

import (
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// maxSecond is how often what is left is planned onto what a plan made, each time as long as that places a pod.
	maxSecond = 4
	// secondPods is how many pods of one class are tried at a time. Gangs are tried whole.
	secondPods = 64
	// maxSingles is how many classes are tried with one pod alone.
	maxSingles = 16
	// maxRefused is how often that is tried without a claim that cannot take what was put on it.
	maxRefused = 8
)

// attempt plans up to most pods of each class, held to the wanted preferences: once for all of them, then once more for
// those that are left, with the nodes that were planned as room. Planned together, pods can be in each other's way that
// need not be: a bundle of pods that must share a node leaves out what a node of its own kind would still take, packing
// under a limit leaves out the pod that would fit beside, a pod counts on a neighbour that found no node. It lowers most
// where fewer pods could be planned.
func attempt(in Input, w wants, most []int) Plan {
	asked := slices.Clone(most)
	out := once(in, w, most)
	fillUp(in, w, &out, most, asked)
	return out
}

// Extend is the plan with up to most of the unplaced pods of one class, where nodes of the plan or new ones take them; the
// rest of the plan stays as it is. The input is that of the plan.
func Extend(ctx context.Context, in Input, p Plan, class, most int) Plan {
	in.budget = in.Options.budget(ctx)
	out := p
	out.Claims, out.Placements, out.Unplaced = slices.Clone(p.Claims), slices.Clone(p.Placements), slices.Clone(p.Unplaced)
	for i := range out.Unplaced {
		out.Unplaced[i].Pods = slices.Clone(out.Unplaced[i].Pods)
	}
	asked := make([]int, len(in.Classes))
	for ci := range asked {
		asked[ci] = placedOf(in, &p, ci)
	}
	now := slices.Clone(asked)
	asked[class] = min(asked[class]+most, len(in.Classes[class].Pods))
	fillUp(in, nil, &out, now, asked)
	out.nameClaims(in.NewName)
	return out
}

// fillUp adds to the plan what it can of the pods that are asked for and left, and counts them in most.
func fillUp(in Input, w wants, out *Plan, most, asked []int) {
	for range maxSecond {
		if in.over() {
			return
		}
		came := again(in, w, out, asked)
		if came == nil {
			return
		}
		for ci := range most {
			most[ci] = min(most[ci]+came[ci], asked[ci])
		}
	}
}

// again plans what is left, the most important pods first; where nothing of it can be placed together, single pods. It
// returns how many pods of each class came, nil for none.
func again(in Input, w wants, out *Plan, asked []int) []int {
	left := (&second{in: in, wants: w, first: out}).untied(out.hopeful(in, asked))
	if left == nil {
		return nil
	}
	tries := byTier(in, left)
	if came := firsts(in, w, out, tries, false); came != nil {
		return came
	}
	return firsts(in, w, out, out.singles(in, tries), true)
}

// byTier divides the pods by priority, the highest first; a gang has that of its most important pod.
func byTier(in Input, left []int) [][]int {
	gangs := map[string]int32{}
	for ci := range left {
		name, own := GangOf(in.Classes[ci].Pod).Name, priority(in.Classes[ci].Pod)
		if prio, known := gangs[name]; !known || own > prio {
			gangs[name] = own
		}
	}
	var out [][]int
	for _, tier := range tiers(in) {
		only := make([]int, len(left))
		for ci := range left {
			prio := priority(in.Classes[ci].Pod)
			if name := GangOf(in.Classes[ci].Pod).Name; name != "" {
				prio = gangs[name]
			}
			if prio == tier {
				only[ci] = left[ci]
			}
		}
		out = append(out, only)
	}
	return out
}

// firsts plans try after try, and returns how many pods of each class came, nil for none; it ends with the first that
// places pods if one is enough.
func firsts(in Input, w wants, out *Plan, tries [][]int, one bool) []int {
	var sum []int
	for _, try := range tries {
		if !slices.ContainsFunc(try, func(n int) bool { return n > 0 }) {
			continue
		}
		if in.over() {
			break
		}
		came := (&second{in: in, wants: w, first: out}).plan(try)
		if came == nil {
			continue
		}
		if sum == nil {
			sum = make([]int, len(came))
		}
		for ci, n := range came {
			sum[ci] += n
		}
		if one {
			break
		}
	}
	return sum
}

// singles are one pod of each class of the tries, but of gangs and of those that limits alone keep off, unless these may be kept off as
// pods that others have to share a node with.
func (p *Plan) singles(in Input, tries [][]int) [][]int {
	limited := map[int]bool{}
	bound := slices.ContainsFunc(p.Unplaced, func(u Unplaced) bool { return joinsHost(in.Classes[u.Class].Pod) })
	for _, u := range p.Unplaced {
		limited[u.Class] = !bound && !slices.ContainsFunc(u.Reasons, func(r Reason) bool { return r.Code != "LimitExceeded" && sociable(r, false) })
	}
	var out [][]int
	for _, try := range tries {
		for ci, n := range try {
			if n == 0 || limited[ci] || len(out) == maxSingles || GangOf(in.Classes[ci].Pod).Name != "" {
				continue
			}
			one := make([]int, len(try))
			one[ci] = 1
			out = append(out, one)
		}
	}
	return out
}

// joinsHost says that the pod has to share its node with others.
func joinsHost(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.PodAffinity != nil && slices.ContainsFunc(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(t corev1.PodAffinityTerm) bool {
		return isHost(catalog.NormalKey(t.TopologyKey))
	})
}

// placedOf counts the pods of the class that have a node.
func placedOf(in Input, p *Plan, class int) int {
	n := len(in.Classes[class].Pods)
	for _, u := range p.Unplaced {
		if u.Class == class {
			n -= len(u.Pods)
		}
	}
	return n
}

// hopeful counts the pods by class that found no node, but for a reason that other pods have a part in; nil if there are
// none.
func (p *Plan) hopeful(in Input, asked []int) []int {
	// Who must be on a reservation that the plan used up may find room beside those who are.
	rooms := slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Free != nil }) ||
		slices.ContainsFunc(p.Claims, func(c Claim) bool { return catalog.CapacityTypeOf(c.Expected.CapacityType).Counted })
	hopes := func(u *Unplaced) bool {
		return slices.ContainsFunc(u.Reasons, func(r Reason) bool { return sociable(r, rooms) })
	}
	hopeless := map[string]bool{} // gangs that would not be whole
	for i := range p.Unplaced {
		u := &p.Unplaced[i]
		if g := GangOf(in.Classes[u.Class].Pod); g.Name != "" && (asked[u.Class] < len(in.Classes[u.Class].Pods) || g.Size == 0 && !hopes(u)) {
			hopeless[g.Name] = true
		}
	}
	var out []int
	for i := range p.Unplaced {
		u := &p.Unplaced[i]
		n := len(u.Pods) - (len(in.Classes[u.Class].Pods) - asked[u.Class])
		gang := GangOf(in.Classes[u.Class].Pod).Name
		if n <= 0 || hopeless[gang] || !hopes(u) {
			continue
		}
		if gang == "" {
			n = min(n, secondPods)
		}
		if out == nil {
			out = make([]int, len(in.Classes))
		}
		out[u.Class] = n
	}
	return out
}

// sociable says that the reason may be gone once other pods have their nodes; with rooms, so may be what keeps a pod off
// new nodes.
func sociable(r Reason, rooms bool) bool {
	switch r.Code {
	case "InvalidPod", "NotSupported", "VolumeConflict":
		return false
	case "LimitExceeded", "SpreadUnsatisfiable", "AffinityUnsatisfiable", "GangIncomplete", "FilterRejected":
		return true
	case "RequirementsConflict", NotSelected:
		return rooms || r.cause == minValuesLost
	}
	return rooms
}

// second is a plan for what a first one left.
type second struct {
	in    Input
	wants wants
	first *Plan
	// m is the input compiled again, for claims that get more pods.
	m *model
	// daemonsRead is what daemons returns once read is set.
	daemonsRead []daemon
	read        bool
}

// plan adds to the first plan what it can of left, and returns how many pods of each class that is; nil for none.
func (s *second) plan(left []int) []int {
	in := s.after(left)
	keep := s.concerned(left)
	in.Classes = subset(in.Classes, keep)
	wanted := s.wants
	if wanted != nil {
		wanted = subset(wanted, keep)
	}
	for range maxRefused {
		if in.over() {
			break
		}
		p := once(in, wanted, subset(left, keep))
		p.Restore(keep)
		s.explain(&p)
		grown, refused := s.grow(&p)
		if refused == nil {
			return s.merge(&p, grown)
		}
		in.Rejected = append(in.Rejected, refused...)
	}
	return nil
}

// explain takes over what the second plan says of pods that must be near others: those have nodes by now.
func (s *second) explain(p *Plan) {
	near := func(r Reason) bool { return r.cause == noNeighbor }
	for _, u := range p.Unplaced {
		at := slices.IndexFunc(s.first.Unplaced, func(o Unplaced) bool { return o.Class == u.Class })
		if at < 0 || len(s.first.Unplaced[at].Reasons) != len(u.Reasons) {
			continue
		}
		reasons := slices.Clone(s.first.Unplaced[at].Reasons)
		for i, r := range u.Reasons {
			if near(reasons[i]) && near(r) {
				reasons[i] = r
			}
		}
		s.first.Unplaced[at].Reasons = reasons
	}
}

// claimOf is the index of the claim that the node stands for.
func claimOf(node string) (int, bool) {
	text, ok := strings.CutPrefix(node, plannedPrefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(text)
	return i, err == nil
}

// grow is the claims, by index, with the pods that were placed on them; or, where a claim cannot take them, verdicts that
// keep them off.
func (s *second) grow(p *Plan) (map[int]Claim, []Rejection) {
	grown := map[int]Claim{}
	var refused []Rejection
	for _, pl := range p.Placements {
		i, ok := claimOf(pl.Node)
		if !ok {
			continue
		}
		if s.m == nil {
			s.m = compile(s.in, s.wants, newLessons())
		}
		c, ok := s.m.grown(&s.first.Claims[i], pl.Members)
		grown[i] = c
		for _, x := range pl.Members {
			if !ok {
				refused = append(refused, Rejection{ClassKey: s.in.Classes[x.Class].Key, Node: pl.Node, Reason: "the node's claim cannot take it as well, or not without losing the NodePool's minValues"})
			}
		}
	}
	return grown, refused
}

// merge adds the second plan to the first, and returns how many pods of each class came; nil for none.
func (s *second) merge(p *Plan, grown map[int]Claim) []int {
	first, came := s.first, make([]int, len(s.in.Classes))
	for i, c := range grown {
		first.Claims[i] = c
	}
	placed := false
	for _, pl := range p.Placements {
		for _, x := range pl.Members {
			came[x.Class] += len(x.Pods)
			placed = true
		}
		if _, ok := claimOf(pl.Node); ok {
			continue
		}
		at := slices.IndexFunc(first.Placements, func(o Placement) bool { return o.Node == pl.Node })
		if at < 0 {
			first.Placements = append(first.Placements, pl)
			continue
		}
		first.Placements[at].Members = joinMembers(first.Placements[at].Members, pl.Members)
	}
	for _, c := range p.Claims {
		for _, x := range c.Members {
			came[x.Class] += len(x.Pods)
			placed = true
		}
	}
	if !placed {
		return nil
	}
	first.Claims = append(first.Claims, p.Claims...)
	first.CostPerHour += p.CostPerHour
	first.PlainCostPerHour += p.CostPerHour
	first.FirstFitPerHour += p.FirstFitPerHour
	first.Unplaced = slices.DeleteFunc(first.Unplaced, func(u Unplaced) bool { return came[u.Class] == len(u.Pods) })
	for i := range first.Unplaced {
		first.Unplaced[i].Pods = first.remaining(&first.Unplaced[i])
	}
	return came
}

// remaining are the unplaced pods that have no node by now.
func (p *Plan) remaining(u *Unplaced) []catalog.PodRef {
	placed := map[string]bool{}
	note := func(list []Member) {
		for _, x := range list {
			if x.Class == u.Class {
				for _, ref := range x.Pods {
					placed[ref.UID] = true
				}
			}
		}
	}
	for i := range p.Claims {
		note(p.Claims[i].Members)
	}
	for i := range p.Placements {
		note(p.Placements[i].Members)
	}
	return slices.DeleteFunc(u.Pods, func(ref catalog.PodRef) bool { return placed[ref.UID] })
}

// joinMembers adds the pods of b to those of a, by class.
func joinMembers(a, b []Member) []Member {
	out := slices.Clone(a)
	for _, x := range b {
		at := slices.IndexFunc(out, func(o Member) bool { return o.Class == x.Class })
		if at < 0 {
			out = append(out, x)
			continue
		}
		out[at].Pods = slices.Concat(out[at].Pods, x.Pods)
	}
	slices.SortStableFunc(out, func(a, b Member) int { return a.Class - b.Class })
	return out
}

package plan

import (
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// regain is the plan with more pods above the priority, where these find room that it has only since it placed those of the priority
// and below: a node may have become larger for them. What room is left is theirs again. False if there is no such room.
func regain(in Input, w wants, p *Plan, tier int32) (Plan, bool) {
	waits := slices.ContainsFunc(p.Unplaced, func(u Unplaced) bool {
		return priority(in.Classes[u.Class].Pod) > tier && slices.ContainsFunc(u.Reasons, func(r Reason) bool { return r.limited(in) })
	})
	lesser := func(ci int) bool { return priority(in.Classes[ci].Pod) <= tier }
	has := func(c Claim) bool {
		return slices.ContainsFunc(c.Members, func(x Member) bool { return lesser(x.Class) })
	}
	if !waits || !slices.ContainsFunc(p.Claims, has) {
		return Plan{}, false
	}
	out, ok := bare(in, w, p, lesser)
	if !ok {
		return Plan{}, false
	}
	now, asked, all := make([]int, len(in.Classes)), make([]int, len(in.Classes)), make([]int, len(in.Classes))
	for ci := range in.Classes {
		now[ci], asked[ci], all[ci] = placedOf(in, &out, ci), placedOf(in, &out, ci), placedOf(in, p, ci)
		if priority(in.Classes[ci].Pod) > tier {
			asked[ci] = len(in.Classes[ci].Pods)
		}
	}
	fillUp(in, w, &out, now, asked)
	if placed(in, &out, tier+1) <= placed(in, p, tier+1) {
		return Plan{}, false
	}
	for ci := range all {
		all[ci] = max(all[ci], now[ci])
	}
	fillUp(in, w, &out, now, all)
	return out, true
}

// bare is the plan with the claims as they are, but without the pods of the classes that are gone. False if others need those where they are,
// or minValues are lost.
func bare(in Input, w wants, p *Plan, gone func(int) bool) (Plan, bool) {
	m, out := compile(in, w, newLessons()), *p
	out.Claims, out.Placements, out.CostPerHour = nil, nil, 0
	off := map[int][]catalog.PodRef{}
	keep := func(list []Member) []Member {
		var kept []Member
		for _, x := range list {
			if gone(x.Class) {
				off[x.Class] = append(off[x.Class], x.Pods...)
			} else {
				kept = append(kept, x)
			}
		}
		return kept
	}
	for _, c := range p.Claims {
		if c.Members = keep(c.Members); len(c.Members) == 0 {
			continue
		}
		c, ok := m.grown(&c, nil)
		if !ok {
			return Plan{}, false
		}
		out.Claims, out.CostPerHour = append(out.Claims, c), out.CostPerHour+c.Expected.Price
	}
	for _, pl := range p.Placements {
		if pl.Members = keep(pl.Members); len(pl.Members) > 0 {
			out.Placements = append(out.Placements, pl)
		}
	}
	out.PlainCostPerHour, out.FirstFitPerHour, out.proofs = out.CostPerHour, out.CostPerHour, nil
	out.Unplaced = slices.Clone(p.Unplaced)
	for ci := range in.Classes {
		if len(off[ci]) == 0 {
			continue
		}
		if m.needed(ci, gone) {
			return Plan{}, false
		}
		out.leave(in, ci, off[ci])
	}
	return out, true
}

// needed says that pods of the class are whole with others, or that the rules of others that are not gone count them.
func (m *model) needed(ci int, gone func(int) bool) bool {
	return GangOf(m.classes[ci].pod).Name != "" || m.relations.Needed(ci, gone)
}

// leave adds pods of the class to those without a node.
func (p *Plan) leave(in Input, ci int, pods []catalog.PodRef) {
	at := slices.IndexFunc(p.Unplaced, func(u Unplaced) bool { return u.Class == ci })
	if at < 0 {
		u := Unplaced{Class: ci}
		for _, name := range sortedKeys(in.Catalog.NodePools) {
			u.Reasons = append(u.Reasons, Reason{NodePool: name, Code: "LimitExceeded", Message: "more important pods use what the limits of the pool leave"})
		}
		p.Unplaced, at = append(p.Unplaced, u), len(p.Unplaced)
	}
	p.Unplaced[at].Pods = slices.Concat(p.Unplaced[at].Pods, pods)
}

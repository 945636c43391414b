package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// order returns the classes by falling priority and size of one pod, the largest share of any resource of the largest node that there
// is. Those that spread over domains come after others of their priority, around whose pods they can become even; those that follow
// other pods by affinity come last.
func (rf *roomFiller) order() []int {
	largest := make(vec, len(rf.dims))
	for i := range rf.market.offers {
		for d, n := range rf.market.offers[i].free {
			largest[d] = max(largest[d], n)
		}
	}
	size := make([]float64, len(rf.classes))
	out := make([]int, len(rf.classes))
	for ci := range rf.classes {
		out[ci], size[ci] = ci, share(rf.classes[ci].need, largest)
	}
	joining, spreading := rf.relations.Dependent()
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Or(lastIn(joining, a, b), cmp.Compare(priority(rf.classes[b].pod), priority(rf.classes[a].pod)), lastIn(spreading, a, b), cmp.Compare(size[b], size[a]), strings.Compare(rf.classes[a].key, rf.classes[b].key))
	})
	return out
}

// lastIn compares classes: those in the set come last.
func lastIn(set bitset.Set, a, b int) int {
	switch {
	case set.Has(a) == set.Has(b):
		return 0
	case set.Has(b):
		return -1
	}
	return 1
}

// roomFill is what was put into a room.
type roomFill struct {
	room  int
	parts []relations.Part
}

// fillRooms puts as many pods as it can into the rooms, first-fit, and takes them off left.
func (rf *roomFiller) fillRooms(left []int) []roomFill {
	fills := make([]roomFill, len(rf.rooms))
	for i := range fills {
		fills[i].room = i
	}
	if len(rf.rooms) == 0 {
		return nil
	}
	order := rf.order()
	for pass, again := 0, true; again && pass < maxPasses; pass++ {
		again = false
		for _, ci := range order {
			if rf.in.budget.Cancelled() {
				break
			}
			for i := 0; i < len(rf.rooms) && left[ci] > 0; i++ {
				n := rf.fillRoom(&fills[i], ci, left[ci])
				left[ci] -= n
				// What came may be what a pod by affinity waits for.
				again = again || n > 0
			}
		}
	}
	return slices.DeleteFunc(fills, func(f roomFill) bool { return len(f.parts) == 0 })
}

// fillRoom puts up to want pods of the class into a room and returns how many.
func (rf *roomFiller) fillRoom(f *roomFill, ci, want int) int {
	r, c := &rf.rooms[f.room], &rf.classes[ci]
	need := r.needAt(c)
	if !r.free.holds(need) || !r.admits(c) || c.blocked.Forbids(r.label) || r.open != nil && relations.Repulsed(rf.relations, ci, r.undecided) {
		return 0
	}
	if _, others := rf.market.probation.spared(c.fits); r.doubtful && others {
		return 0
	}
	at := r.label
	placed := 0
	for placed < want && r.free.holds(need) {
		if !rf.relations.Permits(relations.Part{Class: ci, N: 1}, at, false) || !rf.relations.KeepsEven(ci, at) || !rf.colocation.fitsCompany(f.parts, ci, r, at) {
			break
		}
		f.parts = addPart(f.parts, ci, 1)
		rf.relations.Record(ci, 1, at)
		r.free.add(need, -1)
		if len(c.shared) > 0 {
			r.attach(c.pod.Namespace, c.pod.Spec.Volumes)
			need = r.needAt(c)
		}
		placed++
	}
	return placed
}

// fitsCompany says that one more pod of the class may join the parts, by those rules that Permits does not count.
func (co *colocation) fitsCompany(parts []relations.Part, ci int, r *room, at relations.Lookup) bool {
	most := co.classes[ci].perNode
	return co.nodeRules.Permit(addPart(slices.Clone(parts), ci, 1), at) && (most == 0 || r.siblings(&co.classes[ci])+podsIn(parts, ci) < most)
}

// siblings counts the pods in the room that look like the class's. Only the first part of a class's key is about the pod's own spec.
func (r *room) siblings(c *class) int {
	n := 0
	key, _, _ := strings.Cut(c.key, "/")
	for _, p := range r.node.Pods {
		if p.Namespace == c.pod.Namespace && ClassKey(p) == key {
			n++
		}
	}
	return n
}

// podsIn returns how many pods of the class the parts have.
func podsIn(parts []relations.Part, ci int) int {
	if i := slices.IndexFunc(parts, func(p relations.Part) bool { return p.Class == ci }); i >= 0 {
		return parts[i].N
	}
	return 0
}

func addPart(parts []relations.Part, ci, n int) []relations.Part {
	for i := range parts {
		if parts[i].Class == ci {
			parts[i].N += n
			return parts
		}
	}
	return append(parts, relations.Part{Class: ci, N: n})
}

// placements names the pods of the fills; next counts how many of each class have been named.
func (rf *roomFiller) placements(fills []roomFill, next []int) []Placement {
	var out []Placement
	for _, f := range fills {
		r := &rf.rooms[f.room]
		p := Placement{Node: r.node.Name, InFlight: r.inFlight}
		for _, part := range sortedParts(f.parts) {
			p.Members = append(p.Members, Member{Class: part.Class, Pods: take(rf.classes, part, next)})
		}
		out = append(out, p)
	}
	return out
}

func take(classes []class, p relations.Part, next []int) []catalog.PodRef {
	from := next[p.Class]
	next[p.Class] += p.N
	return slices.Clone(classes[p.Class].refs[from : from+p.N])
}

func sortedParts(parts []relations.Part) []relations.Part {
	out := slices.Clone(parts)
	slices.SortFunc(out, func(a, b relations.Part) int { return a.Class - b.Class })
	return out
}

// roomFiller puts pods into the free room of nodes.
type roomFiller struct {
	in         *Input
	market     *market
	relations  *relations.Relations
	colocation *colocation
	classes    []class
	dims       dims
	rooms      []room
}

// room is a node that exists or is in flight and has free resources.
type room struct {
	node     *Node
	inFlight bool
	labels   map[string]string
	free     vec
	ports    portSet
	// attached are the volume claims of the pods there.
	attached map[string]bool
	// doubtful says that the node may never come.
	doubtful bool
	// open are the label keys of new nodes of its NodePool, for a node in flight that EC2 has not launched yet; nil for others.
	open map[string]bool
}

// undecided says that the node gets the label when EC2 launches it, with a value that is not known yet.
func (r *room) undecided(key string) bool {
	_, has := r.labels[key]
	return r.open[key] && !has
}

// label is the lookup of the room's labels.
func (r *room) label(key string) (string, bool) {
	v, ok := r.labels[key]
	return v, ok
}

// maxPasses bounds how often pods that wait for others, by affinity or by spread, are tried again after some of those have got their place.
// A pass places all that wait in its order; only chains in the opposite order need one pass for each link. What is left then is
// inserted when the plan is filled up.
const maxPasses = 32

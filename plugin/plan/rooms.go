package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// order returns the classes by falling priority and size of one pod, the largest share of any resource of the largest node that there
// is. Those that spread over domains come after others of their priority, around whose pods they can become even; those that follow
// other pods by affinity come last.
func (m *model) order() []int {
	largest := make(vec, len(m.dims))
	for i := range m.market.offers {
		for d, n := range m.market.offers[i].free {
			largest[d] = max(largest[d], n)
		}
	}
	size, follows, evens := make([]float64, len(m.classes)), make([]bool, len(m.classes)), make([]int, len(m.classes))
	out := make([]int, len(m.classes))
	for ci := range m.classes {
		out[ci], size[ci] = ci, share(m.classes[ci].need, largest)
	}
	for i := range m.relations.rules {
		switch r := &m.relations.rules[i]; {
		case r.kind == affinity:
			follows[r.owner] = true
		case r.kind == spread && !r.soft && !isHost(r.key):
			evens[r.owner] = 1
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		if follows[a] != follows[b] {
			if follows[b] {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(priority(m.classes[b].pod), priority(m.classes[a].pod)), cmp.Compare(evens[a], evens[b]), cmp.Compare(size[b], size[a]), strings.Compare(m.classes[a].key, m.classes[b].key))
	})
	return out
}

// roomFill is what was put into a room.
type roomFill struct {
	room  int
	parts []part
}

// fillRooms puts as many pods as it can into the rooms, first-fit, and takes them off left.
func (m *model) fillRooms(left []int) []roomFill {
	fills := make([]roomFill, len(m.rooms))
	for i := range fills {
		fills[i].room = i
	}
	if len(m.rooms) == 0 {
		return nil
	}
	order := m.order()
	for pass, again := 0, true; again && pass < maxPasses; pass++ {
		again = false
		for _, ci := range order {
			if m.in.budget.Cancelled() {
				break
			}
			for i := 0; i < len(m.rooms) && left[ci] > 0; i++ {
				n := m.fillRoom(&fills[i], ci, left[ci])
				left[ci] -= n
				// What came may be what a pod by affinity waits for.
				again = again || n > 0
			}
		}
	}
	return slices.DeleteFunc(fills, func(f roomFill) bool { return len(f.parts) == 0 })
}

// fillRoom puts up to want pods of the class into a room and returns how many.
func (m *model) fillRoom(f *roomFill, ci, want int) int {
	r, c := &m.rooms[f.room], &m.classes[ci]
	need := r.needAt(c)
	if !r.free.holds(need) || !r.admits(c) || r.blocks(c) {
		return 0
	}
	if _, others := m.probation.spared(c.fits); r.doubtful && others {
		return 0
	}
	at := func(key string) (string, bool) { v, ok := r.labels[key]; return v, ok }
	placed := 0
	for placed < want && r.free.holds(need) {
		if !m.relations.permits(part{ci, 1}, at, false) || !m.relations.staysEven(ci, at) || !m.fitsCompany(f.parts, ci, r, at) {
			break
		}
		f.parts = addPart(f.parts, ci, 1)
		m.relations.record(ci, 1, at)
		r.free.add(need, -1)
		if len(c.shared) > 0 {
			r.attach(c.pod.Namespace, c.pod.Spec.Volumes)
			need = r.needAt(c)
		}
		placed++
	}
	return placed
}

// blocks says that a pod near the room does not tolerate the class.
func (r *room) blocks(c *class) bool {
	for key, values := range c.blocked {
		if v, ok := r.labels[key]; ok && values[v] {
			return true
		}
	}
	return false
}

// staysEven says that one more pod of the class leaves the spread of others on the node as even as they require.
func (re *relations) staysEven(ci int, at lookup) bool {
	for _, i := range re.hosts {
		r := &re.rules[i]
		if v, ok := at(r.key); ok && r.owner != ci && r.classes.has(ci) && !r.staysEven(v, 1) {
			return false
		}
	}
	return true
}

// fitsCompany says that one more pod of the class may join the parts, by those rules that are not counted by permits.
func (m *model) fitsCompany(parts []part, ci int, r *room, at lookup) bool {
	return m.companyAt(addPart(slices.Clone(parts), ci, 1), at) && (m.classes[ci].perNode == 0 || r.siblings(&m.classes[ci]) < m.classes[ci].perNode)
}

// siblings counts the pods in the room that look like the class's.
func (r *room) siblings(c *class) int {
	n := 0
	for _, p := range r.node.Pods {
		if p.Namespace == c.pod.Namespace && ClassKey(p) == c.key {
			n++
		}
	}
	return n
}

func addPart(parts []part, ci, n int) []part {
	for i := range parts {
		if parts[i].class == ci {
			parts[i].n += n
			return parts
		}
	}
	return append(parts, part{ci, n})
}

// placements names the pods of the fills; next counts how many of each class have been named.
func (m *model) placements(fills []roomFill, next []int) []Placement {
	var out []Placement
	for _, f := range fills {
		r := &m.rooms[f.room]
		p := Placement{Node: r.node.Name, InFlight: r.inFlight}
		for _, part := range sortedParts(f.parts) {
			p.Members = append(p.Members, Member{Class: part.class, Pods: m.take(part, next)})
		}
		out = append(out, p)
	}
	return out
}

func (m *model) take(p part, next []int) []catalog.PodRef {
	from := next[p.class]
	next[p.class] += p.n
	return slices.Clone(m.classes[p.class].refs[from : from+p.n])
}

func sortedParts(parts []part) []part {
	out := slices.Clone(parts)
	slices.SortFunc(out, func(a, b part) int { return a.class - b.class })
	return out
}

package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// gang is pods that are placed together or not at all.
type gang struct {
	name string
	// size is how many make it complete; running are those that have a node.
	size, running int
	classes       []int
}

// compileGangs collects the gangs. Of one that has too few pods none can be placed.
func (m *model) compileGangs() {
	at := map[string]int{}
	for ci := range m.classes {
		g := GangOf(m.classes[ci].pod)
		if g.Name == "" {
			continue
		}
		i, ok := at[g.Name]
		if !ok {
			i = len(m.gangs)
			at[g.Name] = i
			m.gangs = append(m.gangs, gang{name: g.Name})
		}
		m.gangs[i].size = max(m.gangs[i].size, g.Size)
		m.gangs[i].classes = append(m.gangs[i].classes, ci)
	}
	if len(m.gangs) == 0 {
		return
	}
	for _, n := range m.in.Nodes {
		for _, p := range n.Pods {
			g := GangOf(p)
			if i, ok := at[g.Name]; ok && p.DeletionTimestamp == nil {
				m.gangs[i].size = max(m.gangs[i].size, g.Size)
				m.gangs[i].running++
			}
		}
	}
	for i := range m.gangs {
		g := &m.gangs[i]
		all := g.running
		for _, ci := range g.classes {
			all += len(m.classes[ci].refs)
		}
		if g.size == 0 {
			g.size = all
		}
		for _, ci := range g.classes {
			if c := &m.classes[ci]; all < g.size && c.broken == nil {
				c.broken = &Reason{Code: "GangIncomplete", Message: fmt.Sprintf("gang %s waits for its pods: %d of %d are there", g.name, all, g.size)}
			}
		}
	}
}

// gangsStand reports whether each gang of which pods are placed is complete. If not, the pods of one that is not are taken off most: that
// of the lowest priority, of those the one that lacks most; or those of all of them if last.
func (m *model) gangsStand(placed, most []int, last bool) bool {
	worst, lacks := -1, 0
	for i := range m.gangs {
		g := &m.gangs[i]
		have := 0
		for _, ci := range g.classes {
			have += placed[ci]
		}
		if have == 0 || g.running+have >= g.size {
			continue
		}
		less := g.size - g.running - have
		if last {
			g.holdBack(m.lessons, fmt.Sprintf("%d cannot be placed: %s", less, m.lacking(g, placed)), placed, most)
		}
		if worst < 0 || cmp.Or(cmp.Compare(m.gangPriority(g), m.gangPriority(&m.gangs[worst])), cmp.Compare(lacks, less)) < 0 {
			worst, lacks = i, less
		}
	}
	if worst < 0 {
		return true
	}
	if !last {
		g := &m.gangs[worst]
		g.holdBack(m.lessons, fmt.Sprintf("%d cannot be placed: %s", lacks, m.lacking(g, placed)), placed, most)
	}
	return false
}

// holdBack takes the pods of the gang off most, and keeps why.
func (g *gang) holdBack(l *lessons, why string, placed, most []int) {
	for _, ci := range g.classes {
		most[ci] = 0
		if placed[ci] > 0 {
			l.held[ci] = Reason{Code: "GangIncomplete", Message: fmt.Sprintf("gang %s runs with %d pods or none, and %s", g.name, g.size, why)}
		}
	}
}

func (m *model) gangPriority(g *gang) int32 {
	most := priority(m.classes[g.classes[0]].pod)
	for _, ci := range g.classes {
		most = max(most, priority(m.classes[ci].pod))
	}
	return most
}

// lacking is the reason of the first pod of the gang that found no node.
func (m *model) lacking(g *gang, placed []int) string {
	i := slices.IndexFunc(g.classes, func(ci int) bool { return placed[ci] < len(m.classes[ci].refs) })
	if i < 0 {
		return "not all of its pods are planned"
	}
	ci := g.classes[i]
	ref := m.classes[ci].refs[placed[ci]]
	r := m.reasons(ci)[0]
	if r.NodePool != "" {
		return fmt.Sprintf("pod %s in NodePool %s %s", ref.Name, r.NodePool, r.Message)
	}
	return fmt.Sprintf("pod %s: %s", ref.Name, r.Message)
}

package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// gang is pods that are placed together or not at all.
type gang struct {
	name string
	// size is how many make it complete; running are those that have a node or have finished.
	size, running int
	classes       []int
}

// compileGangs collects the gangs. Of one that has too few pods none can be placed.
func (gr *gangRules) compileGangs() {
	at := map[string]int{}
	for ci := range gr.classes {
		g := GangOf(gr.classes[ci].pod)
		if g.Name == "" {
			continue
		}
		i, ok := at[g.Name]
		if !ok {
			i = len(gr.gangs)
			at[g.Name] = i
			gr.gangs = append(gr.gangs, gang{name: g.Name, running: gr.in.Finished[g.Name]})
		}
		gr.gangs[i].size = max(gr.gangs[i].size, g.Size)
		gr.gangs[i].classes = append(gr.gangs[i].classes, ci)
	}
	if len(gr.gangs) == 0 {
		return
	}
	for _, n := range gr.in.Nodes {
		for _, p := range n.Pods {
			g := GangOf(p)
			if i, ok := at[g.Name]; ok && p.DeletionTimestamp == nil {
				gr.gangs[i].size = max(gr.gangs[i].size, g.Size)
				gr.gangs[i].running++
			}
		}
	}
	for i := range gr.gangs {
		g := &gr.gangs[i]
		all := g.running
		for _, ci := range g.classes {
			all += len(gr.classes[ci].refs)
		}
		if g.size == 0 {
			g.size = all
		}
		for _, ci := range g.classes {
			if c := &gr.classes[ci]; all < g.size && c.broken == nil {
				c.broken = &Reason{Code: "GangIncomplete", Message: fmt.Sprintf("gang %s waits for its pods: %d of %d are there", g.name, all, g.size)}
			}
		}
	}
}

// gangsStand reports whether each gang of which pods are placed is complete. If not, the pods of one that is not are taken off most: that
// of the lowest priority, of those the one that lacks most; or those of all of them if last.
func (gr *gangRules) gangsStand(placed, most []int, last bool) bool {
	worst, lacks := -1, 0
	for i := range gr.gangs {
		g := &gr.gangs[i]
		have := 0
		for _, ci := range g.classes {
			have += placed[ci]
		}
		if have == 0 || g.running+have >= g.size {
			continue
		}
		less := g.size - g.running - have
		if last {
			g.holdBack(gr.lessons, fmt.Sprintf("%d cannot be placed: %s", less, gr.explainer.lacking(g, placed)), placed, most)
		}
		if worst < 0 || cmp.Or(cmp.Compare(gr.gangPriority(g), gr.gangPriority(&gr.gangs[worst])), cmp.Compare(lacks, less)) < 0 {
			worst, lacks = i, less
		}
	}
	if worst < 0 {
		return true
	}
	if !last {
		g := &gr.gangs[worst]
		g.holdBack(gr.lessons, fmt.Sprintf("%d cannot be placed: %s", lacks, gr.explainer.lacking(g, placed)), placed, most)
	}
	return false
}

// holdBack takes the pods of the gang off most, and keeps why.
func (g *gang) holdBack(l *lessons, why string, placed, most []int) {
	for _, ci := range g.classes {
		most[ci] = 0
		if placed[ci] > 0 {
			l.held[ci] = Reason{Code: "GangIncomplete", Message: fmt.Sprintf("gang %s runs with all %d or none, and %s", g.name, g.size, why)}
		}
	}
}

func (gr *gangRules) gangPriority(g *gang) int32 {
	most := priority(gr.classes[g.classes[0]].pod)
	for _, ci := range g.classes {
		most = max(most, priority(gr.classes[ci].pod))
	}
	return most
}

// lacking is the reason of the first pod of the gang that found no node.
func (ex *explainer) lacking(g *gang, placed []int) string {
	i := slices.IndexFunc(g.classes, func(ci int) bool { return placed[ci] < len(ex.classes[ci].refs) })
	if i < 0 {
		return "not all of its pods are planned"
	}
	ci := g.classes[i]
	ref := ex.classes[ci].refs[placed[ci]]
	r := ex.reasons(ci)[0]
	if r.NodePool != "" {
		return fmt.Sprintf("pod %s in NodePool %s %s", ref.Name, r.NodePool, r.Message)
	}
	return fmt.Sprintf("pod %s: %s", ref.Name, r.Message)
}

// gangRules keeps gangs whole: all of their pods have nodes, or none.
type gangRules struct {
	in        *Input
	explainer *explainer
	classes   []class
	lessons   *lessons
	// gangs of the input, in the order of their first class.
	gangs []gang
}

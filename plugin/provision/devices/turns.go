package devices

import (
	"cmp"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// mostNeeds is for how many different needs of one class each a plan is made. Pods with different claims do not share a node, so a plan for some of them
	// is no worse. Each pair of classes of different needs is one rejection, and each need one resource.
	mostNeeds = 128
	// mostPairs is how many such pairs there are at most.
	mostPairs = mostNeeds * mostNeeds
	// mostTurns is how many needs are remembered.
	mostTurns = 1 << 14
)

// turns remembers when the devices for a need were counted.
type turns struct {
	// now is the number of the plan, last the number of the need's last one. since is the number of the plan after which the round began in which each need
	// has a turn.
	now, since int
	last       map[corev1.ResourceName]int
}

// next begins a plan.
func (t *turns) next() {
	t.now++
	if len(t.last) > mostTurns {
		clear(t.last)
	}
}

// had records that the need has its turn in this plan.
func (t *turns) had(name corev1.ResourceName) { t.last[name] = t.now }

// waits reports whether the need has had no turn in this round.
func (t *turns) waits(name corev1.ResourceName) bool { return t.last[name] <= t.since }

// over ends the round: each need has had its turn.
func (t *turns) over() { t.since = t.now }

// order returns the needs in their turn: one of each namespace, then the second of each and so on. Within a namespace, the need whose turn is the longest ago
// is first, of several the one whose pods came first. A need of several namespaces counts where it comes first.
func (t *turns) order(p *Prepared) []corev1.ResourceName {
	names := slices.SortedFunc(maps.Keys(p.needs), func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(t.last[a], t.last[b]), cmp.Compare(p.needs[a].classes[0], p.needs[b].classes[0]))
	})
	before, place := map[string]int{}, map[corev1.ResourceName]int{}
	for _, name := range names {
		own := map[string]bool{}
		for _, i := range p.needs[name].classes {
			own[p.Classes[i].Pod.Namespace] = true
		}
		place[name] = math.MaxInt
		for namespace := range own {
			place[name] = min(place[name], before[namespace])
			before[namespace]++
		}
	}
	slices.SortStableFunc(names, func(a, b corev1.ResourceName) int { return cmp.Compare(place[a], place[b]) })
	return names
}

// pairs counts the pairs of classes of different needs.
type pairs struct{ classes, n int }

// fits reports whether a need of so many classes is within the bound. One need always is: its pods share nodes.
func (p *pairs) fits(classes int) bool { return p.n+2*classes*p.classes <= mostPairs }

// add counts a need of so many classes.
func (p *pairs) add(classes int) {
	p.n += 2 * classes * p.classes
	p.classes += classes
}

package batch

import (
	"slices"
	"time"
)

// set holds pods that are planned together: those of an owner, of a gang, or of a namespace with related pods.
type set struct {
	uids []string
	// first and last are the times of the first and the last pod; last also counts changes in the number of an owner's pods.
	first, last time.Time
	// growing means that a known owner creates more pods, endless that an owner does not state how many it wants, untried that
	// there are pods which the scheduling queue has not tried yet.
	growing, endless, untried bool
}

// parents is a union-find over the names of owners, gangs, namespaces, and pods that have none of them.
type parents map[string]string

// find returns the representative of the set that the name is in. It halves the path, so that a call takes almost constant time
// (Tarjan and van Leeuwen 1984).
func (p parents) find(name string) string {
	for {
		up, ok := p[name]
		if !ok {
			return name
		}
		if over, ok := p[up]; ok {
			p[name] = over
		}
		name = up
	}
}

func (p parents) join(a, b string) {
	if a, b = p.find(a), p.find(b); a != b {
		p[a] = b
	}
}

// home returns the name of the pod's owner, or of the pod itself.
func (p Pod) home() string {
	if p.Owner != "" {
		return "owner/" + p.Owner
	}
	return "pod/" + p.UID
}

// sets divides the pods that wait for no gang into sets.
func (b *Batch) sets(now time.Time) []*set {
	related := map[string]bool{}
	for _, p := range b.pods {
		if p.Related {
			related[p.Namespace] = true
		}
	}
	up := parents{}
	for _, p := range b.pods {
		if p.Gang != "" {
			up.join(p.home(), "gang/"+p.Gang)
		}
		if related[p.Namespace] {
			up.join(p.home(), "namespace/"+p.Namespace)
		}
	}
	byName := map[string]*set{}
	var out []*set
	for uid, p := range b.pods {
		if b.Lacking(p.Gang, now) > 0 {
			continue
		}
		name := up.find(p.home())
		s, ok := byName[name]
		if !ok {
			s = &set{first: p.at}
			byName[name] = s
			out = append(out, s)
		}
		s.uids = append(s.uids, uid)
		if p.at.Before(s.first) {
			s.first = p.at
		}
		b.addOwner(s, p)
	}
	return out
}

func (b *Batch) addOwner(s *set, p member) {
	for _, at := range []time.Time{p.at, b.events[p.Owner]} {
		if at.After(s.last) {
			s.last = at
		}
	}
	if p.Owner == "" || b.incomplete(p.Owner) == "" {
		return
	}
	if o, known := b.owners[p.Owner]; known && o.Kind != Other {
		s.growing, s.untried = true, s.untried || o.Untried > 0
		return
	}
	s.endless = true
}

// checkSets closes the sets that wait for nothing more, after the queue has drained.
func (b *Batch) checkSets(now time.Time, all sum) Verdict {
	sets := b.sets(now)
	growing := slices.ContainsFunc(sets, func(s *set) bool { return s.growing })
	out := Verdict{Next: all.gangsUntil, Waiting: all.waiting()}
	for _, s := range sets {
		at, why := b.closes(s, growing, now)
		if at.After(now) {
			if out.Next.IsZero() || at.Before(out.Next) {
				out.Next = at
			}
			continue
		}
		b.closing = append(b.closing, s.uids...)
		if rank(why) > rank(out.Reason) {
			out.Reason = why
		}
	}
	if len(b.closing) > 0 {
		return Verdict{Close: true, Reason: out.Reason}
	}
	return out
}

// rank orders the reasons of sets that close at the same time; the greatest is reported.
func rank(r Reason) int { return slices.Index([]Reason{"", Idle, Max, DrainedAndComplete}, r) }

// closes returns when a set closes, and why. A complete set waits for other owners that are creating their pods, but for the idle
// window at most, and for no owner that does not state how many pods it wants.
func (b *Batch) closes(s *set, growing bool, now time.Time) (time.Time, Reason) {
	switch {
	case s.growing || s.endless:
		return b.window(s.first, s.last, s.untried, now)
	case growing:
		return s.last.Add(b.config.Idle), Idle
	}
	return now, DrainedAndComplete
}

// window returns when incomplete pods close, and why.
func (b *Batch) window(first, last time.Time, untried bool, now time.Time) (time.Time, Reason) {
	most, idle := first.Add(b.config.Max), last.Add(b.config.Idle)
	if untried && now.Before(idle) {
		// A shorter window would separate them from pods that exist and are being tried.
		most = first.Add(2 * b.config.Max)
	}
	if untried {
		idle = last.Add(patience * b.config.Idle)
	}
	if most.After(idle) {
		return idle, Idle
	}
	return most, Max
}

package pending

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Pods are the pods for which no node is being launched. It is for one goroutine.
type Pods struct {
	// unplaced are pods for which nothing could be planned.
	unplaced map[types.UID]intake.Entry
	// until are when those of them are planned that wait for a moment of their own, next is the first of these moments.
	until map[types.UID]time.Time
	next  time.Time
	// aside are pods whose planning failed.
	aside asides
	// returns are pods that were planned to go to nodes that exist.
	returns returns
	// replan is when the unplaced pods are planned again.
	replan replanning
}

// New returns an empty list.
func New() *Pods {
	return &Pods{unplaced: map[types.UID]intake.Entry{}, until: map[types.UID]time.Time{}, aside: asides{}, returns: returns{}}
}

// Hold keeps a pod for which nothing could be planned until all held pods are planned again.
func (p *Pods) Hold(e intake.Entry) {
	p.unplaced[e.Pod.UID] = e
	delete(p.until, e.Pod.UID)
}

// HoldUntil keeps a pod that waits for a moment of its own, unless all held pods are planned earlier. The others do not have to be planned at that moment.
func (p *Pods) HoldUntil(e intake.Entry, at time.Time) {
	p.unplaced[e.Pod.UID] = e
	p.until[e.Pod.UID] = at
	if p.next.IsZero() || at.Before(p.next) {
		p.next = at
	}
}

// Take removes the pod from those for which nothing could be planned, and returns its entry; the zero entry for any other pod.
func (p *Pods) Take(uid types.UID) intake.Entry {
	e := p.unplaced[uid]
	p.drop(uid)
	return e
}

// Each calls visit for each pod for which nothing could be planned.
func (p *Pods) Each(visit func(intake.Entry)) {
	for _, e := range p.unplaced {
		visit(e)
	}
}

// Held returns the number of pods for which nothing could be planned.
func (p *Pods) Held() int { return len(p.unplaced) }

// Knows reports whether the pod was planned before, without success.
func (p *Pods) Knows(uid types.UID) bool {
	_, unplaced := p.unplaced[uid]
	_, failed := p.aside[uid]
	return unplaced || failed
}

// IsAside reports whether the pod is set aside at the time.
func (p *Pods) IsAside(uid types.UID, now time.Time) bool { return p.aside.holds(uid, now) }

// Waits reports whether the pod is held, or set aside at the time.
func (p *Pods) Waits(uid types.UID, now time.Time) bool {
	_, unplaced := p.unplaced[uid]
	return unplaced || p.aside.holds(uid, now)
}

// SetAside keeps a pod from being planned for a while. Its planning failed while it was planned alone. It returns the end of that
// time.
func (p *Pods) SetAside(e intake.Entry, now time.Time) time.Time { return p.aside.failed(e, now) }

// Planned forgets the failures of pods that were planned.
func (p *Pods) Planned(entries []intake.Entry) { p.aside.planned(entries) }

// Again removes the held pods that are chosen, and returns them sorted.
func (p *Pods) Again(which func(intake.Entry) bool) []intake.Entry {
	var out []intake.Entry
	for uid, e := range p.unplaced {
		if which(e) {
			out = append(out, e)
			p.drop(uid)
		}
	}
	intake.Sort(out)
	return out
}

func (p *Pods) drop(uid types.UID) {
	delete(p.unplaced, uid)
	delete(p.until, uid)
}

// Due returns which held pods are planned again now: all of them if what can be launched has changed, else those whose own moment has come, each with
// its gang. nil means none. The moment of all is set again by the next change.
func (p *Pods) Due(now time.Time) func(intake.Entry) bool {
	if p.replan.due(now) {
		return func(intake.Entry) bool { return true }
	}
	if p.next.IsZero() || now.Before(p.next) {
		return nil
	}
	p.next = time.Time{}
	due, gangs := map[types.UID]bool{}, map[string]bool{}
	for uid, at := range p.until {
		switch {
		case !now.Before(at):
			due[uid] = true
			gangs[p.unplaced[uid].Gang.Name] = true
		case p.next.IsZero() || at.Before(p.next):
			p.next = at
		}
	}
	if len(due) == 0 {
		return nil
	}
	return func(e intake.Entry) bool { return due[e.Pod.UID] || e.Gang.Name != "" && gangs[e.Gang.Name] }
}

// Needs looks up what the held pods need by now. Those for which that has changed are due, each with its gang: at once, and ever later for one that is edited again
// and again, up to replanMost. current returns a pod as it is, nil if it is gone. Those of another scheduler are collected again when they change.
func (p *Pods) Needs(current func(*corev1.Pod) *corev1.Pod, now time.Time) {
	edited, gangs := map[types.UID]bool{}, map[string]bool{}
	for uid, e := range p.unplaced {
		pod := current(e.Pod)
		if pod == nil || pod.Spec.NodeName != "" || e.Adopted {
			continue
		}
		class, gang := e.Class, plan.GangOf(pod)
		if pod != e.Pod {
			class = plan.ClassKey(pod)
		}
		if class != e.Class || gang != e.Gang {
			edited[uid], gangs[gang.Name] = true, true
		}
		// The conditions of pods are written after each plan that finds nothing for them: that is looked at once.
		e.Pod, e.Class, e.Gang = pod, class, gang
		p.unplaced[uid] = e
	}
	if len(edited) == 0 {
		return
	}
	for uid, e := range p.unplaced {
		if edited[uid] || e.Gang.Name != "" && gangs[e.Gang.Name] {
			p.edited(e, now)
		}
	}
}

// edited has a pod planned again that needs something else, or whose gang does.
func (p *Pods) edited(e intake.Entry, now time.Time) { p.rested(e, 0, now) }

// rested has a pod planned again after its rest, which is at least so long and longer the next time.
func (p *Pods) rested(e intake.Entry, least time.Duration, now time.Time) {
	at := now.Add(max(e.EditRest, least))
	if until, waits := p.until[e.Pod.UID]; waits && until.Before(at) {
		at = until
	}
	e.EditRest = min(max(2*e.EditRest, replanFirst), replanMost)
	p.HoldUntil(e, at)
}

// PlanBy lets the held pods be planned again at the time, unless they are planned earlier.
func (p *Pods) PlanBy(at time.Time) { p.replan.by(at) }

// Changed records a change of what can be launched. mayHelp means that a held pod may find a node now.
func (p *Pods) Changed(mayHelp bool, now time.Time) { p.replan.changed(mayHelp, now) }

// Edited records that a NodePool is another one than before: the pods' reasons name it.
func (p *Pods) Edited(now time.Time) { p.replan.edited(now) }

// Placed records that a plan placed pods for which nothing could be planned before. The wait after the next change is the
// shortest again.
func (p *Pods) Placed() { p.replan.placed() }

// PlanAfterRest lets the held pods be planned again after a plan that ran out of time: after replanFirst, or restFactor times the
// duration of that plan. So pods that are always too much work take a fifth of a CPU, and other pods are planned meanwhile.
func (p *Pods) PlanAfterRest(took time.Duration, now time.Time) {
	p.PlanBy(now.Add(max(replanFirst, restFactor*took)))
}

// Tidy removes the pods that need no node any more, and returns those whose time aside is over, sorted. gone reports whether a
// pod is deleted or has a node.
func (p *Pods) Tidy(now time.Time, gone func(*corev1.Pod) bool) (due []intake.Entry) {
	for uid, x := range p.aside {
		if gone(x.entry.Pod) {
			delete(p.aside, uid)
		}
	}
	for uid, e := range p.unplaced {
		if gone(e.Pod) {
			p.drop(uid)
		}
	}
	p.returns.tidy(now)
	return p.aside.due(now)
}

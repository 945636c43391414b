package promise

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// rememberFor is how long a promise is remembered after its pod was bound: the scheduler's cache gets the binding later.
const rememberFor = 10 * time.Second

// fulfilled is a promise whose pod was bound at the time.
type fulfilled struct {
	promise Promise
	at      time.Time
}

// Bound removes the promise of a pod that was bound, and remembers for a while that the pod had it.
func (t *Table) Bound(uid types.UID, now time.Time) []Promise {
	t.mu.Lock()
	p, ok := t.remove(uid)
	if !ok {
		t.mu.Unlock()
		return nil
	}
	t.forget(now)
	t.lately[p.NodeClaim] = append(t.lately[p.NodeClaim], fulfilled{promise: p, at: now})
	t.boundAt = now
	t.mu.Unlock()
	return t.activated([]Promise{p})
}

// Quiet reports whether Coming has nothing for any NodeClaim.
func (t *Table) Quiet(now time.Time) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byUID) == 0 && now.Sub(t.boundAt) >= rememberFor
}

// Coming returns the promises on the NodeClaim, in the order of their pods' names, with those whose pods were bound lately: the
// scheduler's view of the node may not have these pods yet.
func (t *Table) Coming(nodeClaim string, now time.Time) []Promise {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.byClaim[nodeClaim])+len(t.lately[nodeClaim]) == 0 {
		return nil
	}
	var out []Promise
	for uid := range t.byClaim[nodeClaim] {
		out = append(out, t.byUID[uid])
	}
	for _, f := range t.lately[nodeClaim] {
		if !f.over(now) {
			out = append(out, f.promise)
		}
	}
	slices.SortFunc(out, byName)
	return out
}

// ComingByNode returns the promises by the name of their Node, where it is known, as Coming does for one NodeClaim, in no order.
func (t *Table) ComingByNode(now time.Time) map[string][]Promise {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := map[string][]Promise{}
	add := func(p Promise) {
		if p.NodeName != "" {
			out[p.NodeName] = append(out[p.NodeName], p)
		}
	}
	for _, p := range t.byUID {
		add(p)
	}
	for _, list := range t.lately {
		for _, f := range list {
			if !f.over(now) {
				add(f.promise)
			}
		}
	}
	return out
}

func (f fulfilled) over(now time.Time) bool { return now.Sub(f.at) >= rememberFor }

// forget drops what was remembered for long enough.
func (t *Table) forget(now time.Time) {
	for claim, list := range t.lately {
		if list = slices.DeleteFunc(list, func(f fulfilled) bool { return f.over(now) }); len(list) == 0 {
			delete(t.lately, claim)
			continue
		}
		t.lately[claim] = list
	}
}

package promise

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Promise is one pod's place on a planned node.
type Promise struct {
	// Pod is the pod that has the place.
	Pod catalog.PodRef
	// NodeClaim is the name of the node's NodeClaim.
	NodeClaim string
	// NodeName is the name of the node, empty until it is known.
	NodeName string
	// Labels are those that the node will have, as far as they are known when the promise is made.
	Labels map[string]string
	// Since is when the promise was made or, later, when the launcher confirmed that it has recorded it.
	Since time.Time
	// Deadline is when the pod is released whatever the launcher reports.
	Deadline time.Time
	// Message is what the pod waits for, as its condition says it.
	Message string
	// Open means that the node takes the pod now: the scheduler may place it. The promise stays until it has.
	Open bool
	// PreBound means that the launcher has bound the pod, which the scheduler has not seen yet. The promise keeps its room until then.
	PreBound bool
}

// Table holds the promises by pod.
type Table struct {
	activate func([]catalog.PodRef)

	mu      sync.RWMutex
	byUID   map[types.UID]Promise
	byClaim map[string]map[types.UID]struct{}
	// lately are promises that ended because their pod was bound, by NodeClaim, for a while.
	lately map[string][]fulfilled
	// boundAt is when the last of them ended.
	boundAt time.Time
}

// New returns an empty table. activate is called after pods were added or removed, without a lock held, and must have the scheduling
// queue ask for them again: it gates those that are held, and tries the others. It ignores pods that do not exist any more.
func New(activate func([]catalog.PodRef)) (*Table, error) {
	if activate == nil {
		return nil, errors.New("promise table: activate is required")
	}
	return &Table{
		activate: activate,
		byUID:    map[types.UID]Promise{},
		byClaim:  map[string]map[types.UID]struct{}{},
		lately:   map[string][]fulfilled{},
	}, nil
}

// Hold adds promises. A pod that has one already keeps only the new one.
func (t *Table) Hold(promises ...Promise) {
	t.add(promises)
	// A pod that is not gated is compared with every event about every node until it is.
	t.activated(promises)
}

func (t *Table) add(promises []Promise) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range promises {
		uid := types.UID(p.Pod.UID)
		t.remove(uid)
		t.byUID[uid] = p
		if t.byClaim[p.NodeClaim] == nil {
			t.byClaim[p.NodeClaim] = map[types.UID]struct{}{}
		}
		t.byClaim[p.NodeClaim][uid] = struct{}{}
	}
}

// Get returns the pod's promise.
func (t *Table) Get(uid types.UID) (Promise, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.byUID[uid]
	return p, ok
}

// Held returns the promise of a pod that has to wait for its node.
func (t *Table) Held(uid types.UID) (Promise, bool) {
	p, ok := t.Get(uid)
	return p, ok && !p.Open
}

// Open lets the scheduler try pods whose node takes them. They keep their promises until they are bound or released.
func (t *Table) Open(uids ...types.UID) {
	t.mu.Lock()
	var refs []catalog.PodRef
	for _, uid := range uids {
		if p, ok := t.byUID[uid]; ok {
			p.Open = true
			t.byUID[uid] = p
			refs = append(refs, p.Pod)
		}
	}
	t.mu.Unlock()
	if len(refs) > 0 {
		t.activate(refs)
	}
}

// PreBound records that the launcher has bound pods of a claim.
func (t *Table) PreBound(nodeClaim string, uids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, uid := range uids {
		if p, ok := t.byUID[types.UID(uid)]; ok && p.NodeClaim == nodeClaim {
			p.PreBound, p.Open = true, false
			t.byUID[types.UID(uid)] = p
		}
	}
}

// Waiting returns the promises of pods that the scheduler does not try yet, in no order.
func (t *Table) Waiting() []Promise {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []Promise
	for _, p := range t.byUID {
		if !p.Open {
			out = append(out, p)
		}
	}
	return out
}

// Len returns the number of promises.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byUID)
}

// OfClaim returns the promises on the NodeClaim, in the order of their pods' names.
func (t *Table) OfClaim(nodeClaim string) []Promise {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]Promise, 0, len(t.byClaim[nodeClaim]))
	for uid := range t.byClaim[nodeClaim] {
		out = append(out, t.byUID[uid])
	}
	slices.SortFunc(out, byName)
	return out
}

// Claims returns a copy of the promises by NodeClaim.
func (t *Table) Claims() map[string][]Promise {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[string][]Promise, len(t.byClaim))
	for _, p := range t.byUID {
		out[p.NodeClaim] = append(out[p.NodeClaim], p)
	}
	for _, list := range out {
		slices.SortFunc(list, byName)
	}
	return out
}

// OnNode reports whether any promise is on the Node.
func (t *Table) OnNode(nodeName string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, p := range t.byUID {
		if p.NodeName == nodeName {
			return true
		}
	}
	return false
}

// SetNode records the Node's name for all promises on the claim.
func (t *Table) SetNode(nodeClaim, nodeName string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid := range t.byClaim[nodeClaim] {
		p := t.byUID[uid]
		p.NodeName = nodeName
		t.byUID[uid] = p
	}
}

// Confirm sets the deadline of the promises on a claim that the launcher knows; zero changes nothing.
func (t *Table) Confirm(nodeClaim string, deadline time.Time) {
	if deadline.IsZero() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid := range t.byClaim[nodeClaim] {
		p := t.byUID[uid]
		p.Deadline = deadline
		t.byUID[uid] = p
	}
}

// Recorded notes that the launcher has recorded the promises on the claim. The time from which the launcher must know them starts
// now, not when they were made here.
func (t *Table) Recorded(nodeClaim string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid := range t.byClaim[nodeClaim] {
		p := t.byUID[uid]
		p.Since = now
		t.byUID[uid] = p
	}
}

// Release removes the promises of pods that were bound, deleted, refused, or are planned again.
func (t *Table) Release(uids ...types.UID) []Promise {
	t.mu.Lock()
	var out []Promise
	for _, uid := range uids {
		if p, ok := t.remove(uid); ok {
			out = append(out, p)
		}
	}
	t.mu.Unlock()
	return t.activated(out)
}

// ReleaseInitialized removes the promises on a claim whose node was initialized. Those of pods that the launcher has bound stay until the scheduler has seen
// that, or until the deadline, and those of the given pods until they are released.
func (t *Table) ReleaseInitialized(nodeClaim string, deadline time.Time, keep ...types.UID) []Promise {
	t.Confirm(nodeClaim, deadline)
	return t.releaseWhere(func(p Promise) bool {
		return p.NodeClaim == nodeClaim && !p.PreBound && !slices.Contains(keep, types.UID(p.Pod.UID))
	})
}

// ReleaseClaim removes the promises on a claim that ended: its node failed or was deleted.
func (t *Table) ReleaseClaim(nodeClaim string) []Promise {
	return t.releaseWhere(func(p Promise) bool { return p.NodeClaim == nodeClaim })
}

// ReleaseExpired removes the promises whose deadline has passed.
func (t *Table) ReleaseExpired(now time.Time) []Promise {
	return t.releaseWhere(func(p Promise) bool { return !p.Deadline.IsZero() && !now.Before(p.Deadline) })
}

// ReleaseUnknown removes the promises on claims that the launcher does not know, if they are older than before: a younger one may
// not have reached the launcher's stream yet. Pods that the launcher has bound are waited for until their deadline.
func (t *Table) ReleaseUnknown(known func(nodeClaim string) bool, before time.Time) []Promise {
	return t.releaseWhere(func(p Promise) bool { return p.Since.Before(before) && !p.PreBound && !known(p.NodeClaim) })
}

func (t *Table) releaseWhere(match func(Promise) bool) []Promise {
	t.mu.Lock()
	var out []Promise
	for uid, p := range t.byUID {
		if match(p) {
			t.remove(uid)
			out = append(out, p)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(out, byName)
	return t.activated(out)
}

// activated activates the pods of promises that were added or removed. Every change ends here.
func (t *Table) activated(out []Promise) []Promise {
	if len(out) == 0 {
		return nil
	}
	refs := make([]catalog.PodRef, len(out))
	for i, p := range out {
		refs[i] = p.Pod
	}
	t.activate(refs)
	return out
}

func (t *Table) remove(uid types.UID) (Promise, bool) {
	p, ok := t.byUID[uid]
	if !ok {
		return p, false
	}
	delete(t.byUID, uid)
	delete(t.byClaim[p.NodeClaim], uid)
	if len(t.byClaim[p.NodeClaim]) == 0 {
		delete(t.byClaim, p.NodeClaim)
	}
	return p, true
}

func byName(a, b Promise) int {
	return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
}

package backoff

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// first is the delay after the first launch that came to nothing, most what it doubles to.
	first, most = 10 * time.Second, 10 * time.Minute
	// forgetAfter is how long after its delay an owner is forgotten.
	forgetAfter = 2 * most
	// provenAfter is how long a pod runs before its launch counts as a success: a pod of higher priority, or the kubelet, may
	// drive it off a moment after it has started.
	provenAfter = time.Minute
	// maxOwners bounds the owners that are remembered with a delay.
	maxOwners = 10000
)

// Pod is one that a node is launched for.
type Pod struct {
	// UID of the pod.
	UID types.UID
	// Owner is the UID of the pod's controller, or the pod's own.
	Owner types.UID
}

// Delay says why nothing is launched for a pod.
type Delay struct {
	// NodeClaim whose node ran none of the pods that it was launched for.
	NodeClaim string
	// Reason why, empty where none is known.
	Reason string
	// Until is when the next node may be launched.
	Until time.Time
	// Launches is how many rounds of launches came to nothing since one succeeded.
	Launches int
}

// launch is a NodeClaim as one owner's pods see it.
type launch struct {
	claim string
	owner types.UID
	at    time.Time
	// ended says that the node is initialized, or gone; gone that it went before.
	ended, gone bool
	node        string
	pods        map[types.UID]*pod
}

// pod is what became of one that a node was launched for.
type pod struct {
	// node that it was bound to, empty for none.
	node string
	// running is since when it runs, ran that it has for long enough.
	running time.Time
	ran     bool
	// lost says why it does not run on its node, empty while it may.
	lost string
}

// owner has the delay of an owner's pods.
type owner struct {
	launches map[*launch]bool
	delay    Delay
	// struck is when the last launch was found to have come to nothing.
	struck time.Time
}

// Launches are the launches that have not shown whether they were of use, and the delays that follow from the others. It is
// safe for concurrent use.
type Launches struct {
	mu      sync.Mutex
	owners  map[types.UID]*owner
	byClaim map[string]map[types.UID]*launch
	byPod   map[types.UID]*launch
}

// New returns Launches that know of none.
func New() *Launches {
	return &Launches{owners: map[types.UID]*owner{}, byClaim: map[string]map[types.UID]*launch{}, byPod: map[types.UID]*launch{}}
}

// Launched notes that the NodeClaim was launched for the pods. Called again it adds pods.
func (l *Launches) Launched(claim string, pods []Pod, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		l.drop(p.UID)
		if l.byClaim[claim] == nil {
			l.byClaim[claim] = map[types.UID]*launch{}
		}
		at := l.byClaim[claim][p.Owner]
		if at == nil {
			at = &launch{claim: claim, owner: p.Owner, at: now, pods: map[types.UID]*pod{}}
			l.byClaim[claim][p.Owner] = at
			l.ownerOf(p.Owner).launches[at] = true
		}
		at.pods[p.UID] = &pod{}
		l.byPod[p.UID] = at
	}
}

// Initialized notes that the NodeClaim's node takes pods.
func (l *Launches) Initialized(claim, node string) {
	l.each(claim, func(at *launch) { at.ended, at.node = true, node })
}

// Gone notes that the NodeClaim was deleted before its node took pods.
func (l *Launches) Gone(claim string) {
	l.each(claim, func(at *launch) { at.ended, at.gone = true, true })
}

// Forget drops a NodeClaim that failed to launch or to join: its NodePool is delayed for it.
func (l *Launches) Forget(claim string) { l.each(claim, l.remove) }

func (l *Launches) each(claim string, f func(*launch)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.byClaim[claim] {
		f(at)
	}
}

// NodeOf returns the name of the initialized node that was launched for the pod; empty for none.
func (l *Launches) NodeOf(uid types.UID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byPod[uid]; at != nil {
		return at.node
	}
	return ""
}

// Check judges the launches for the pod, which needs a node again, and those for its owner whose pods were lost. why is why the
// node that was launched for it does not run it, empty where that is not known. It returns the owner's delay and whether it
// lasts, and the NodeClaims that were just found to have come to nothing.
func (l *Launches) Check(p Pod, why string, now time.Time) (_ Delay, lasts bool, found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.owners[p.Owner]
	if o == nil {
		return Delay{}, false, nil
	}
	own := l.byPod[p.UID]
	for at := range o.launches {
		if at != own && !at.anyLost() {
			continue
		}
		if reason, useless := at.useless(p.UID, why, now); useless {
			found = append(found, at.claim)
			l.strike(o, at, reason, now)
		}
	}
	return o.delay, now.Before(o.delay.Until), found
}

// strike lengthens the owner's delay. Launches of one round count once: they were made before the first of them had failed.
func (l *Launches) strike(o *owner, at *launch, reason string, now time.Time) {
	l.remove(at)
	if !o.struck.IsZero() && at.at.Before(o.struck) {
		return
	}
	for other := range o.launches {
		if other.proven(now) {
			o.delay = Delay{}
			l.remove(other)
		}
	}
	o.struck = now
	o.delay.Launches++
	o.delay.NodeClaim, o.delay.Reason = at.claim, reason
	n := o.delay.Launches - 1
	if at.gone || !at.ended {
		// Once, a node may go before its pods come for an ordinary reason.
		n--
	}
	o.delay.Until = now
	if n >= 0 {
		o.delay.Until = now.Add(min(first<<min(n, 6), most))
	}
}

// useless reports whether none of the pods that the node was launched for can come to run there any more, and why. A pod that
// asks has come back from it.
func (at *launch) useless(asks types.UID, why string, now time.Time) (string, bool) {
	if at.proven(now) {
		return "", false
	}
	lost := 0
	for uid, p := range at.pods {
		switch {
		case p.lost != "":
			lost++
			if why == "" || uid != asks {
				why = p.lost
			}
		case uid == asks:
			lost++
		case at.ended && p.node == "":
		default:
			return "", false // It is on its way, or there.
		}
	}
	return why, lost > 0
}

func (at *launch) anyLost() bool {
	for _, p := range at.pods {
		if p.lost != "" {
			return true
		}
	}
	return false
}

// proven reports whether a pod has run on the node for long enough.
func (at *launch) proven(now time.Time) bool {
	for _, p := range at.pods {
		if p.ran || p.lost == "" && !p.running.IsZero() && now.Sub(p.running) >= provenAfter {
			return true
		}
	}
	return false
}

// Tidy forgets what was of use and what is long over. It returns how many owners have a delay that lasts.
func (l *Launches) Tidy(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := 0
	for uid, o := range l.owners {
		for at := range o.launches {
			if at.proven(now) {
				o.delay, o.struck = Delay{}, time.Time{}
				l.remove(at)
			}
		}
		over := o.delay.Launches == 0 || now.Sub(o.delay.Until) >= forgetAfter
		if len(o.launches) == 0 && (over || len(l.owners) > maxOwners && !now.Before(o.delay.Until)) {
			delete(l.owners, uid)
		}
		if now.Before(o.delay.Until) {
			waiting++
		}
	}
	return waiting
}

func (l *Launches) ownerOf(uid types.UID) *owner {
	o := l.owners[uid]
	if o == nil {
		o = &owner{launches: map[*launch]bool{}}
		l.owners[uid] = o
	}
	return o
}

// drop forgets one pod of a launch, and the launch with its last one.
func (l *Launches) drop(uid types.UID) {
	at := l.byPod[uid]
	if at == nil {
		return
	}
	delete(l.byPod, uid)
	if delete(at.pods, uid); len(at.pods) == 0 {
		l.remove(at)
	}
}

func (l *Launches) remove(at *launch) {
	for uid := range at.pods {
		if l.byPod[uid] == at {
			delete(l.byPod, uid)
		}
	}
	delete(l.byClaim[at.claim], at.owner)
	if len(l.byClaim[at.claim]) == 0 {
		delete(l.byClaim, at.claim)
	}
	if o := l.owners[at.owner]; o != nil {
		delete(o.launches, at)
	}
}

package backoff

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// first is the delay after the first useless launch. It doubles up to most.
	first, most = 10 * time.Second, 10 * time.Minute
	// forgetAfter is how long after the end of its delay an owner is forgotten, and a launch after its last pod was lost.
	forgetAfter = 2 * most
	// provenAfter is how long a pod must run for its launch to count as useful. A pod may be preempted or evicted shortly
	// after its start.
	provenAfter = time.Minute
	// maxOwners limits the number of owners with a delay that has ended.
	maxOwners = 10000
)

// Pod is a pod for which a node is launched.
type Pod struct {
	// UID is the pod's.
	UID types.UID
	// Owner is what delays count for: the pod's controller, or the pod itself, as a text that no other has.
	Owner string
}

// Delay is why nothing is launched for an owner's pods.
type Delay struct {
	// NodeClaim is the one whose node ran none of the pods for which it was launched.
	NodeClaim string
	// Reason is why the node did not run them; empty where that is unknown.
	Reason string
	// Until is when the next node may be launched.
	Until time.Time
	// Launches is the number of rounds of useless launches since the last useful one.
	Launches int
}

// launch is a NodeClaim and the pods of one owner for which it was launched.
type launch struct {
	claim string
	owner string
	at    time.Time
	// ended is true where the node is initialized or the NodeClaim was deleted, deleted where it was deleted before the node
	// was initialized.
	ended, deleted bool
	node           string
	pods           map[types.UID]*pod
}

// pod is the progress of a pod for which a node was launched.
type pod struct {
	// node is the one that the pod is bound to; empty for none.
	node string
	// running is when the pod was first seen running. ran is true once it has run for provenAfter, or to its end.
	running time.Time
	ran     bool
	// lost is why the pod does not run on its node; empty while it may. lostAt is when that was seen.
	lost   string
	lostAt time.Time
}

// owner holds the launches and the delay of an owner's pods.
type owner struct {
	launches map[*launch]bool
	delay    Delay
	// struck is when the last useless launch was found.
	struck time.Time
}

// Launches holds the launches that are not known to be useful or useless yet, and the delays caused by useless ones. It is
// safe for concurrent use.
type Launches struct {
	mu      sync.Mutex
	owners  map[string]*owner
	byClaim map[string]map[string]*launch
	byPod   map[types.UID]*launch
	// ending holds the owners of the pods whose end is being looked up.
	ending map[types.UID]string
}

// New returns empty Launches.
func New() *Launches {
	return &Launches{
		owners: map[string]*owner{}, byClaim: map[string]map[string]*launch{}, byPod: map[types.UID]*launch{}, ending: map[types.UID]string{},
	}
}

// Launched records that the NodeClaim was launched for the pods. Further calls add pods.
func (l *Launches) Launched(claim string, pods []Pod, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pods {
		l.drop(p.UID)
		if l.byClaim[claim] == nil {
			l.byClaim[claim] = map[string]*launch{}
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

// Initialized records that the NodeClaim's node accepts pods.
func (l *Launches) Initialized(claim, node string) {
	l.each(claim, func(at *launch) { at.ended, at.node = true, node })
}

// ClaimDeleted records that the NodeClaim was deleted before its node was initialized.
func (l *Launches) ClaimDeleted(claim string) {
	l.each(claim, func(at *launch) { at.ended, at.deleted = true, true })
}

// Forget drops a NodeClaim that failed to launch or to join, for which others are delayed: its offerings or its NodePool.
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

// Check decides which launches were useless: the one for the pod, which needs a node again, and those for its owner whose
// pods were lost. why is why the pod does not run on the launched node; empty where that is unknown. Check returns the
// owner's delay, whether it lasts, and the NodeClaims that were just found useless.
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

// strike lengthens the owner's delay. Launches of one round count once: they were made before the first of them was found
// useless.
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
	if at.deleted || !at.ended {
		// A node may be deleted before its pods are bound for an ordinary reason. The first such launch causes no delay.
		n--
	}
	o.delay.Until = now
	if n >= 0 {
		o.delay.Until = now.Add(min(first<<min(n, 6), most))
	}
}

// useless reports whether none of the pods for which the node was launched can still run there, and why. The pod that asks
// for a node again cannot.
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
			return "", false // The pod may still run there, or runs there.
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

// over reports whether pods were lost, and none of them lately: their owner has asked for no node since.
func (at *launch) over(now time.Time) bool {
	var last time.Time
	for _, p := range at.pods {
		if p.lostAt.After(last) {
			last = p.lostAt
		}
	}
	return !last.IsZero() && now.Sub(last) >= forgetAfter
}

// Tidy drops useful launches, those with lost pods whose owner asks for no node any more, and expired delays. It returns how many owners have a delay that lasts.
func (l *Launches) Tidy(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := 0
	for uid, o := range l.owners {
		for at := range o.launches {
			if at.proven(now) {
				o.delay, o.struck = Delay{}, time.Time{}
				l.remove(at)
			} else if at.over(now) {
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

func (l *Launches) ownerOf(name string) *owner {
	o := l.owners[name]
	if o == nil {
		o = &owner{launches: map[*launch]bool{}}
		l.owners[name] = o
	}
	return o
}

// drop drops one pod of a launch, and the launch with its last pod.
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

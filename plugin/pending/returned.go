package pending

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

const (
	// mostReturns is how often a pod is planned to go to nodes that exist before it counts as returned. Once may be a lost race.
	mostReturns = 2
	// returnedFor is how long that counts after the last time: as long as a node takes to boot, whose pods plans see before the scheduler does.
	returnedFor = time.Minute
)

// returns count how often pods were planned to go to nodes that exist, by UID. The scheduler judges differently where it knows what plans do not: room of
// DaemonSet pods that have not come, or pods that plans see on nodes which still boot.
type returns map[types.UID]returning

type returning struct {
	times int
	last  time.Time
}

// planned counts a pod that is planned to go to a node that exists.
func (r returns) planned(uid types.UID, now time.Time) {
	old := r[uid]
	if now.Sub(old.last) >= returnedFor {
		old.times = 0
	}
	r[uid] = returning{times: old.times + 1, last: now}
}

// has reports whether the pod came back each time, and lately.
func (r returns) has(uid types.UID, now time.Time) bool {
	x := r[uid]
	return x.times >= mostReturns && now.Sub(x.last) < returnedFor
}

func (r returns) tidy(now time.Time) {
	maps.DeleteFunc(r, func(_ types.UID, x returning) bool { return now.Sub(x.last) >= returnedFor })
}

// PlannedToExisting counts a pod that is planned to go to a node that exists, which the scheduler may refuse.
func (p *Pods) PlannedToExisting(uid types.UID, now time.Time) { p.returns.planned(uid, now) }

// DivideReturned returns the entries that keep coming back from nodes that exist, with their gangs, and the others: nodes that exist are no room for the
// former.
func (p *Pods) DivideReturned(entries []intake.Entry, now time.Time) (returned, others []intake.Entry) {
	gangs := map[string]bool{}
	for _, e := range entries {
		if e.Gang.Name != "" && p.returns.has(e.Pod.UID, now) {
			gangs[e.Gang.Name] = true
		}
	}
	for _, e := range entries {
		if p.returns.has(e.Pod.UID, now) || gangs[e.Gang.Name] {
			returned = append(returned, e)
		} else {
			others = append(others, e)
		}
	}
	return returned, others
}

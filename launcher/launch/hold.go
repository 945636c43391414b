package launch

import (
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Hold delays the launch of claims with these names until release is called. Claims that are recorded together are then launched together,
// equal claims in one call, and no claim is launched whose recording may be undone. Release may be called more than once.
//
// Stamp gives a claim that is about to be recorded the ID of its launch: the call then needs no write before it. Equal claims get the same
// ID. If the process ends before the call, the next one looks for the call's instances before it launches any; so does this one for a claim
// that it is handed later than a minute after release, or after the call of an equal one. Stamp is not for a claim whose
// recording may be undone: nothing finds out before the call that it is deleted. Stamp may be called concurrently.
func (l *Launcher) Hold(names []string) (stamp func(*karpv1.NodeClaim), release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.held[name]++
	}
	ids := &freshIDs{launcher: l, of: map[string]*freshID{}}
	return ids.stamp, sync.OnceFunc(func() {
		l.mu.Lock()
		for _, name := range names {
			if l.held[name]--; l.held[name] == 0 {
				delete(l.held, name)
			}
		}
		ids.dropLater()
		l.mu.Unlock()
		l.Enqueue() // This wakes the reader of the queue.
	})
}

// begin reports whether this process recorded claims with this ID, and whether this is the first time that it is asked.
func (l *Launcher) begin(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.fresh[id]
	delete(l.fresh, id)
	return fresh
}

// freshIDs are the launch IDs of claims that are recorded together. The launcher's lock guards them.
type freshIDs struct {
	launcher *Launcher
	all      []string
	// of maps a group's key to the ID of its next claim.
	of map[string]*freshID
}

// freshID is a launch ID with the number of claims that have it.
type freshID struct {
	id     string
	claims int
}

func (f *freshIDs) stamp(c *karpv1.NodeClaim) {
	key := groupKey(c)
	f.launcher.mu.Lock()
	defer f.launcher.mu.Unlock()
	next := f.of[key]
	if next == nil || next.claims == maxClaims {
		next = &freshID{id: uuid.NewString()}
		f.of[key], f.launcher.fresh[next.id] = next, true
		f.all = append(f.all, next.id)
	}
	next.claims++
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, catalog.LaunchAnnotation, next.id)
}

// dropLater forgets the IDs of calls that are not begun after keepFresh. Until then the claims of a creation that the API server did not answer
// are launched as soon as they are enqueued.
func (f *freshIDs) dropLater() {
	l, ids := f.launcher, f.all
	if len(ids) == 0 {
		return
	}
	time.AfterFunc(keepFresh, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, id := range ids {
			delete(l.fresh, id)
		}
	})
}

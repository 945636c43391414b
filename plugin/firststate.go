package plugin

import (
	"time"

	"github.com/slipway-k8s/slipway/plugin/catalogview"
)

// firstStateWithin is how long the launcher's questions wait for its state. It gives up on the most urgent of them after 5 s.
const firstStateWithin = 3 * time.Second

// questionGate holds the launcher's questions back until its state is known. The planner's goroutine alone uses it.
type questionGate struct {
	inbox *inbox
	view  *catalogview.View
	// since is when questions began to wait. Zero where none do.
	since time.Time
}

// closed reports whether the launcher's questions have to wait, since nothing can be planned before its state is known: a scheduler
// that has just started is asked at once, and a move that it refuses is called off for a minute. Without a state for too long they
// are still answered, by a refusal.
func (g *questionGate) closed(now time.Time) bool {
	if g.view.Synced() || !g.inbox.asking() {
		g.since = time.Time{}
		return false
	}
	if g.since.IsZero() {
		g.since = now
	}
	return now.Sub(g.since) < firstStateWithin
}

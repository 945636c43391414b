package backoff

import (
	"sync"
	"time"
)

// firstOfGang is the delay after a gang has given nodes back once. It doubles up to mostOfGang. EC2 bills each such node for a minute at
// least.
const firstOfGang, mostOfGang = time.Minute, 30 * time.Minute

// GangDelay is why nothing is launched for a gang.
type GangDelay struct {
	// Reason is why the gang gave its nodes back.
	Reason string
	// Until is when the next node may be launched.
	Until time.Time
	// Launches is how often the gang gave nodes back since a pod of it was last bound.
	Launches int
}

// Gangs holds the delays of gangs that gave the nodes back that were launched for them, since others of their pods got none. It is safe
// for concurrent use.
type Gangs struct {
	mu     sync.Mutex
	delays map[string]GangDelay
}

// NewGangs returns empty Gangs.
func NewGangs() *Gangs { return &Gangs{delays: map[string]GangDelay{}} }

// GaveBack records that the gang gave nodes back, and lengthens its delay.
func (g *Gangs) GaveBack(gang, reason string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.delays[gang]
	d.Until, d.Reason = now.Add(min(firstOfGang<<min(d.Launches, 5), mostOfGang)), reason
	d.Launches++
	g.delays[gang] = d
}

// Bound records that a pod of the gang is bound: the gang is complete.
func (g *Gangs) Bound(gang string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.delays, gang)
}

// Check returns the gang's delay, and whether it lasts.
func (g *Gangs) Check(gang string, now time.Time) (_ GangDelay, lasts bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.delays[gang]
	return d, now.Before(d.Until)
}

// Tidy drops delays that ended twice the longest one ago. It returns how many gangs have a delay that lasts.
func (g *Gangs) Tidy(now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := 0
	for gang, d := range g.delays {
		switch {
		case now.Before(d.Until):
			waiting++
		case now.Sub(d.Until) >= 2*mostOfGang:
			delete(g.delays, gang)
		}
	}
	return waiting
}

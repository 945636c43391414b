package disruption

import (
	"math"
	"time"
)

const (
	// EvictionCost is what the eviction of an ordinary pod costs after a calm time, in USD.
	EvictionCost = 0.01
	// evictionStrain is by how many times its cost in a calm time an eviction costs more once about as many pods were evicted as there are.
	evictionStrain = 12
	// evictionFew is added to the number of pods, so that one eviction in a small NodePool does not count as many.
	evictionFew = 10
	// evictionMemory is how long evictions count: after that time an eviction counts 1/e.
	evictionMemory = 3 * time.Hour
)

// Evictions counts the evictions that consolidation made from the nodes of a NodePool. One counts less the longer ago it was. The zero value has none.
type Evictions struct {
	sum float64
	at  time.Time
}

// Recent returns how many evictions count now.
func (e Evictions) Recent(now time.Time) float64 {
	return e.sum * math.Exp(-max(now.Sub(e.at), 0).Seconds()/evictionMemory.Seconds())
}

// With returns the same with n more evictions, now.
func (e Evictions) With(n int, now time.Time) Evictions {
	return Evictions{sum: e.Recent(now) + float64(max(n, 0)), at: now}
}

// Strain returns how many times more than in a calm time the eviction of one more of the pods costs. It is 1 after a calm time, so that a fleet that
// was scaled in shrinks at once, and grows with the share of the pods that was evicted lately, so that a load that comes and goes moves no pod again
// and again.
func (e Evictions) Strain(pods int, now time.Time) float64 {
	return 1 + evictionStrain*e.Recent(now)/float64(max(pods, 0)+evictionFew)
}

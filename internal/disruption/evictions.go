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
	// evictionGrace is how long it takes until evictions count: what one change of the load sets off may take several moves, and the first of them does not
	// make the others cost more. After that time 63% of an eviction count.
	evictionGrace = 10 * time.Minute
)

// Evictions counts the evictions that consolidation made from the nodes of a NodePool. One counts after some minutes, and less the longer ago it was. The
// zero value has none.
type Evictions struct {
	// sum are those that are remembered, fresh what of them does not count yet.
	sum, fresh float64
	at         time.Time
}

// after returns the same as of a later time.
func (e Evictions) after(now time.Time) Evictions {
	passed := max(now.Sub(e.at), 0).Seconds()
	return Evictions{sum: e.sum * math.Exp(-passed/evictionMemory.Seconds()), fresh: e.fresh * math.Exp(-passed/evictionGrace.Seconds()), at: now}
}

// Recent returns how many evictions count now.
func (e Evictions) Recent(now time.Time) float64 {
	e = e.after(now)
	return max(e.sum-e.fresh, 0)
}

// With returns the same with n more evictions, now.
func (e Evictions) With(n int, now time.Time) Evictions {
	e = e.after(now)
	e.sum, e.fresh = e.sum+float64(max(n, 0)), e.fresh+float64(max(n, 0))
	return e
}

// Strain returns how many times more than in a calm time the eviction of one more of the pods costs. It is 1 after a calm time, and for the first
// moves after it, so that a fleet that was scaled in shrinks at once, and grows with the share of the pods that was evicted lately, so that a load that comes and goes moves no pod again
// and again.
func (e Evictions) Strain(pods int, now time.Time) float64 {
	return 1 + evictionStrain*e.Recent(now)/float64(max(pods, 0)+evictionFew)
}

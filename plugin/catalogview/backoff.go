package catalogview

import (
	"maps"
	"math"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
)

const (
	// freeFailures is after how many failed attempts in a row a NodePool has to wait: fewer may be a coincidence.
	freeFailures = 3
	// backoffMax bounds that wait.
	backoffMax = 5 * time.Minute
	// limitPause is how long a NodePool waits after the launcher refused a claim by its limits: the catalog then shows what the launcher counts. It doubles
	// with each refusal in a row, up to backoffMax: not all that the launcher counts is in the catalog.
	limitPause = time.Second
)

// poolBackoff has NodePools wait whose launches keep failing. Launches that lacked capacity count against their offerings instead.
type poolBackoff struct {
	pools map[string]poolHistory
	// byClaim are the attempts of the claims in flight that this process has planned, by name; latest are the last ones by NodePool.
	byClaim, latest map[string]*attempt
}

// poolHistory counts a NodePool's failed attempts since the last launch that succeeded.
type poolHistory struct {
	failures int
	last     string
	until    time.Time
	// limited is why the launcher refused a claim by the limits, limitedUntil how long the pool waits for that, pause how long it waited.
	limited      string
	limitedUntil time.Time
	pause        time.Duration
}

// attempt is what one request launches of a NodePool. It counts as one failure, however many of its claims fail: one error of EC2 ends all claims
// of a call.
type attempt struct {
	at     time.Time
	failed bool
}

func newPoolBackoff() poolBackoff {
	return poolBackoff{pools: map[string]poolHistory{}, byClaim: map[string]*attempt{}, latest: map[string]*attempt{}}
}

// of returns the attempt of a claim. For one that another process has planned it is what has become of the NodePool's claims at this moment.
func (b *poolBackoff) of(nodeClaim, pool string, now time.Time) *attempt {
	if a := b.byClaim[nodeClaim]; a != nil {
		return a
	}
	a := b.latest[pool]
	if a == nil || !a.at.Equal(now) {
		a = &attempt{at: now}
		b.latest[pool] = a
	}
	return a
}

// recorded records a claim that the launcher has recorded.
func (b *poolBackoff) recorded(nodeClaim, pool string, now time.Time) {
	b.byClaim[nodeClaim] = b.of(nodeClaim, pool, now)
}

// keep drops the claims that are neither in flight nor about to be.
func (b *poolBackoff) keep(inFlight func(name string) bool) {
	maps.DeleteFunc(b.byClaim, func(name string, _ *attempt) bool { return !inFlight(name) })
}

// failed counts a failure, unless one of the claim's attempt was counted.
func (b *poolBackoff) failed(nodeClaim, pool, why string, now time.Time) {
	a := b.of(nodeClaim, pool, now)
	delete(b.byClaim, nodeClaim)
	if a.failed {
		return
	}
	a.failed = true
	h := b.pools[pool]
	h.failures++
	h.last = why
	if n := h.failures - freeFailures; n > 0 {
		wait := time.Duration(math.Min(float64(backoffMax), float64(time.Second)*math.Pow(2, float64(n-1))))
		h.until = now.Add(wait)
	}
	b.pools[pool] = h
}

// limited has the pool wait a moment, and longer each time. Further claims of a request do not make it longer.
func (b *poolBackoff) limited(pool, why string, now time.Time) {
	h := b.pools[pool]
	if !h.limitedUntil.After(now) {
		h.pause = min(max(2*h.pause, limitPause), backoffMax)
	}
	h.limited, h.limitedUntil = why, now.Add(h.pause)
	b.pools[pool] = h
}

// succeeded ends the wait of a pool.
func (b *poolBackoff) succeeded(pool string) { delete(b.pools, pool) }

// received ends the waits of pools whose spec was edited, or which became ready or were: what has failed may work now.
func (b *poolBackoff) received(before, after catalog.State) {
	maps.DeleteFunc(b.pools, func(name string, _ poolHistory) bool {
		was, is := before.NodePools[name], after.NodePools[name]
		return was.Generation != is.Generation || was.Ready != is.Ready
	})
	for name, h := range b.pools {
		if was := before.NodePools[name].Usage["nodes"]; was.Cmp(after.NodePools[name].Usage["nodes"]) != 0 {
			h.pause = 0 // Less is left, or more, than what was refused.
			b.pools[name] = h
		}
	}
	maps.DeleteFunc(b.latest, func(name string, _ *attempt) bool { _, ok := after.NodePools[name]; return !ok })
}

// ends returns the first moment when a NodePool that has to wait may be tried again; zero if none waits.
func (b *poolBackoff) ends(now time.Time) time.Time {
	var first time.Time
	for _, h := range b.pools {
		if until, _ := h.waits(now); !until.IsZero() && (first.IsZero() || until.Before(first)) {
			first = until
		}
	}
	return first
}

// mark marks the NodePools that have to wait as not ready.
func (b *poolBackoff) mark(pools map[string]catalog.NodePool, now time.Time) {
	for name, h := range b.pools {
		until, why := h.waits(now)
		if pool, ok := pools[name]; ok && !until.IsZero() {
			pool.Ready, pool.NotReadyMessage = false, why
			pools[name] = pool
		}
	}
}

// waits returns until when the pool has to wait, and why; zero if it does not.
func (h poolHistory) waits(now time.Time) (until time.Time, why string) {
	switch {
	case h.until.After(now):
		return h.until, explain.BackingOff(h.failures, h.last, h.until)
	case h.limitedUntil.After(now):
		return h.limitedUntil, h.limited
	}
	return time.Time{}, ""
}

// Package garbage sets how much garbage Go's collector lets there be by how much lives. A process with large caches needs less memory that way, and one
// with small caches less CPU.
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Limits say how much garbage there may be before it is collected.
type Limits struct {
	// Bytes is how much there may be in any case, but for a process so small that Most is less.
	Bytes uint64
	// Share is a share of what lives beyond as many bytes, in percent: a process with large caches may have that much, where it is more than Bytes.
	Share int
	// Most is a share of all that lives, in percent.
	Most int
}

// Keep keeps the process within the limits for as long as it runs. A user who sets GOGC overrides it.
func Keep(l Limits) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(l.Most)
		(&collected{limits: l, now: l.Most, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}).await()
	}
}

// Within has garbage collected more often from nine tenths of the limit on, as Karpenter does: bytes, or zero for none. A user who sets GOMEMLIMIT
// overrides it.
func Within(limit int64) {
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// percent returns GOGC for so many bytes that live.
func (l Limits) percent(live uint64) int {
	if live <= l.Bytes*100/uint64(l.Most) {
		return l.Most
	}
	return int(max(l.Bytes*100, (live-min(live, l.Bytes))*uint64(l.Share)) / live)
}

// collected is garbage itself: each collection finds it, which sets GOGC for the next one.
type collected struct {
	limits Limits
	now    int
	live   []metrics.Sample
}

// await has the next collection call set.
func (c *collected) await() { runtime.SetFinalizer(c, (*collected).set) }

// set sets GOGC by what lives after a collection.
func (c *collected) set() {
	metrics.Read(c.live)
	// A change stops the world for a moment.
	if next := c.limits.percent(c.live[0].Value.Uint64()); next*10 > c.now*11 || next*11 < c.now*10 {
		debug.SetGCPercent(next)
		c.now = next
	}
	c.await()
}

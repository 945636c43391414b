package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbageShare is how much garbage there may be, in percent of what lives. Caches of a large cluster live: that is below Go's own 100.
	garbageShare = 50
	// garbageLeast is how much garbage there may be in any case, in bytes. What lives in a small cluster is collected so fast that half as much garbage comes
	// several times a second while nodes are launched.
	garbageLeast = 64 << 20
	// garbageMost bounds GOGC.
	garbageMost = 400
)

// thrifty trades CPU for memory where there is much in memory: the launcher mostly waits. A user who sets GOGC overrides it.
func thrifty() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbageMost)
		(&collected{now: garbageMost, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}).await()
	}
}

// percent returns GOGC for so many bytes that live.
func percent(live uint64) int {
	if live <= garbageLeast*100/garbageMost {
		return garbageMost
	}
	return max(garbageShare, int(garbageLeast*100/live))
}

// collected is garbage itself: each collection finds it, which sets GOGC for the next one.
type collected struct {
	now  int
	live []metrics.Sample
}

// await has the next collection call set.
func (c *collected) await() { runtime.SetFinalizer(c, (*collected).set) }

// set sets GOGC by what lives after a collection.
func (c *collected) set() {
	metrics.Read(c.live)
	// A change stops the world for a moment.
	if next := percent(c.live[0].Value.Uint64()); next*10 > c.now*11 || next*11 < c.now*10 {
		debug.SetGCPercent(next)
		c.now = next
	}
	c.await()
}

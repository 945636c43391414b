package garbage

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func launchers() Limits { return Limits{Bytes: 64 << 20, Share: 50, Most: 400} }

// Garbage may be half of what lives beyond 64 MiB, or those 64 MiB, or four times what lives in a small process.
func TestPercent(t *testing.T) {
	limits := launchers()
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 400}, {16 << 20, 400}, {32 << 20, 200}, {64 << 20, 100}, {128 << 20, 50}, {192 << 20, 33}, {256 << 20, 37}, {1 << 30, 46},
	} {
		if got := limits.percent(c.live); got != c.want {
			t.Errorf("GOGC is %d while %d bytes live, want %d", got, c.live, c.want)
		}
	}
}

// Each collection sets GOGC by what lives: more lets there be less.
func TestKeepFollowsTheHeap(t *testing.T) {
	limits := launchers()
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	Keep(limits)
	awaitGC := func(what string, fact func(int) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.GC() {
			got := debug.SetGCPercent(100)
			debug.SetGCPercent(got)
			if fact(got) {
				return
			}
		}
		t.Error(what)
	}
	kept := make([]byte, 256<<20)
	awaitGC("much lives, and GOGC is not below the share", func(got int) bool { return got < limits.Share })
	runtime.KeepAlive(kept)
	awaitGC("little lives, and GOGC is not above the share", func(got int) bool { return got > limits.Share })
}

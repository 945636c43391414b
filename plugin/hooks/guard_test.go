package hooks

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
)

// A tripped guard is tried again after ten minutes, and trips again if it must.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tripped []any
		g := guard{name: "x", tripped: func(_ string, cause any) {
			tripped = append(tripped, cause)
			panic("reporting fails too")
		}}
		runs := 0
		try := func() bool {
			return g.do(klog.Background(), func() {
				runs++
				panic(runs)
			})
		}
		first := try()
		if second := try(); first || second || runs != 1 {
			t.Errorf("ran %d times", runs)
		}
		time.Sleep(pause - time.Second)
		if try() || runs != 1 {
			t.Error("tried again too early")
		}
		time.Sleep(2 * time.Second)
		if try() || runs != 2 || len(tripped) != 2 {
			t.Errorf("ran %d times, tripped %v", runs, tripped)
		}
		time.Sleep(pause + time.Second)
		if !g.do(klog.Background(), func() {}) {
			t.Error("does not run again")
		}
	})
}

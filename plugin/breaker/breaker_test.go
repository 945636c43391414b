package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/breaker"
)

// A part that is off is tried again after ten minutes, and is switched off again if it must be.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tripped []any
		g := breaker.Breaker{Name: "x", Tripped: func(_ string, cause any) {
			tripped = append(tripped, cause)
			panic("reporting fails too")
		}}
		runs := 0
		try := func() bool {
			return g.Do(klog.Background(), func() {
				runs++
				panic(runs)
			})
		}
		first := try()
		if second := try(); first || second || runs != 1 {
			t.Errorf("ran %d times", runs)
		}
		time.Sleep(breaker.Pause - time.Second)
		if try() || runs != 1 {
			t.Error("tried again too early")
		}
		time.Sleep(2 * time.Second)
		if try() || runs != 2 || len(tripped) != 2 {
			t.Errorf("ran %d times, tripped %v", runs, tripped)
		}
		time.Sleep(breaker.Pause + time.Second)
		if !g.Do(klog.Background(), func() {}) {
			t.Error("does not run again")
		}
	})
}

package liveness_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-k8s/slipway/launcher/liveness"
)

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loop liveness.Loop
		want := func(alive bool, when string) {
			t.Helper()
			if err := loop.Check(nil); (err == nil) != alive {
				t.Errorf("%s: %v", when, err)
			}
		}
		time.Sleep(time.Hour)
		want(true, "before it began")
		loop.Tick()
		time.Sleep(liveness.Within)
		want(true, "in time")
		time.Sleep(time.Second)
		want(false, "too late")
		loop.Tick()
		want(true, "when it came round after all")
		loop.Stop()
		time.Sleep(time.Hour)
		want(true, "after its end")
	})
}

package launch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/liveness"
)

// A Launcher is busy from before a claim's launch id is written until its instance is recorded.
func TestBusyWhileLaunching(t *testing.T) {
	inWorld(t, memory.Config{VisibleAfter: time.Second}, func(t *testing.T, w *world) {
		t.Helper()
		var idle []string
		w.at("after", func(what string) error {
			if !w.subject.Busy() {
				idle = append(idle, what)
			}
			return nil
		})
		if w.subject.Busy() {
			t.Error("busy before anything was asked for")
		}
		w.record("default-a", "default-b")
		w.settle(time.Minute)
		if len(idle) > 0 {
			t.Errorf("not busy after %s", strings.Join(idle, ", "))
		}
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a"})
		if w.subject.Busy() {
			t.Error("still busy once both are launched")
		}
	})
}

// The loop of a Launcher without work still runs, as the liveness probe requires.
func TestAliveWhileIdle(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		for range 10 {
			time.Sleep(liveness.Within)
			if err := w.subject.Alive(nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

package waking_test

import (
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/plugin/waking"
)

// Seconds are worth what is said. What costs no more is started, however long it takes.
func TestPays(t *testing.T) {
	for _, c := range []struct {
		name    string
		more    float64
		sooner  time.Duration
		waiting float64
		want    bool
	}{
		{"as cheap as a new node", 0, 20 * time.Second, 36, true},
		{"cheaper, and later", -0.1, -time.Second, 36, true},
		{"on demand instead of spot", 0.07, 20 * time.Second, 36, true},
		{"an expensive machine for one pod", 2, 20 * time.Second, 36, false},
		{"an expensive machine for ten pods", 2, 200 * time.Second, 36, true},
		{"dearer, and no sooner", 0.01, 0, 36, false},
		{"waiting costs nothing", 0.001, time.Hour, 0, false},
		{"waiting costs very much", 20, time.Second, 100_000, true},
	} {
		if got := (waking.Choice{More: c.more, Sooner: c.sooner}).Pays(c.waiting); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// Times are those of the kind, or of others that were launched or started, or what is assumed. The latest ones count, and what failed does not.
func TestTimes(t *testing.T) {
	times, now := waking.NewTimes(), time.Unix(0, 0)
	large, woken := waking.Kind{NodePool: "a", InstanceType: "m6i.large"}, waking.Kind{NodePool: "a", InstanceType: "m6i.large", Woken: true}
	if cold, warm := times.Of(large), times.Of(woken); cold != 45*time.Second || warm != 25*time.Second {
		t.Errorf("nothing was seen: %s, %s", cold, warm)
	}
	saw := func(of waking.Kind, took time.Duration, ready bool) {
		times.Begin("claim", of, now)
		times.End("claim", now.Add(took), ready)
	}
	for range 30 {
		saw(large, time.Hour, false)
		saw(large, 50*time.Second, true)
	}
	times.End("never begun", now, true)
	other := waking.Kind{NodePool: "b", InstanceType: "c6i.large"}
	if got := times.Of(other); got != 50*time.Second {
		t.Errorf("of another kind: %s", got)
	}
	if got := times.Of(woken); got != 25*time.Second {
		t.Errorf("of one that was started: %s", got)
	}
	for range 20 {
		saw(large, 30*time.Second, true)
	}
	if got := times.Of(large); got != 30*time.Second {
		t.Errorf("the latest ones: %s", got)
	}
}

package backoff_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/plugin/backoff"
)

// TestGangDelayDoubles checks that a gang for which EC2 lacks a part of the nodes is launched at longer and longer intervals.
func TestGangDelayDoubles(t *testing.T) {
	g, now := backoff.NewGangs(), start()
	var delays []string
	for range 7 {
		g.GaveBack("default/g", "no capacity", now)
		d, lasts := g.Check("default/g", now)
		if _, other := g.Check("default/other", now); !lasts || other || d.Reason != "no capacity" {
			t.Fatalf("%+v, lasts %t, for another gang %t", d, lasts, other)
		}
		delays = append(delays, d.Until.Sub(now).String())
		now = d.Until
		if _, lasts := g.Check("default/g", now); lasts {
			t.Fatal("the delay lasts at its end")
		}
		g.Tidy(now.Add(10 * time.Minute))
	}
	if got, want := strings.Join(delays, " "), "1m0s 2m0s 4m0s 8m0s 16m0s 30m0s 30m0s"; got != want {
		t.Errorf("delays %s, want %s", got, want)
	}
}

// TestGangDelayEnds checks that the delay starts from scratch once a pod of the gang is bound, or long after its end.
func TestGangDelayEnds(t *testing.T) {
	for name, ends := range map[string]func(*backoff.Gangs){
		"a pod is bound": func(g *backoff.Gangs) { g.Bound("default/g") },
		"an hour later":  func(g *backoff.Gangs) { g.Tidy(start().Add(62 * time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			g := backoff.NewGangs()
			g.GaveBack("default/g", "no capacity", start())
			g.GaveBack("default/g", "no capacity", start())
			if n := g.Tidy(start()); n != 1 {
				t.Errorf("%d gangs wait, want 1", n)
			}
			ends(g)
			if d, lasts := g.Check("default/g", start()); lasts || d.Launches != 0 {
				t.Errorf("%+v, lasts %t", d, lasts)
			}
		})
	}
}

package main

import (
	"path/filepath"
	"testing"
)

// Each selected case runs in one round: those that measure grace periods at EC2's speed, with what --skip says applied to both.
func TestRounds(t *testing.T) {
	slow := realTime(regression)
	names := append([]string{"Drift one", "Termination two"}, slow...)
	for _, c := range []struct {
		focus, skip string
		speed       float64
		rounds      int
		// at is the speed at which each of the names runs, 0 where it is not selected.
		at []float64
	}{
		{speed: 10, rounds: 2, at: []float64{10, 10, 1, 1}},
		{speed: 1, rounds: 1, at: []float64{1, 1, 1, 1}},
		{speed: 10, focus: "Drift", rounds: 1, at: []float64{10, 0, 0, 0}},
		{speed: 10, focus: "drain pods", rounds: 1, at: []float64{0, 0, 0, 1}},
		{speed: 10, skip: "pre-stop|Drift", rounds: 2, at: []float64{0, 10, 0, 1}},
		{speed: 10, focus: "none such", rounds: 1, at: []float64{0, 0, 0, 0}},
	} {
		rounds, err := roundsOf(names, options{suite: regression, focus: c.focus, skip: c.skip, speed: c.speed}, "out")
		if err != nil {
			t.Fatal(err)
		}
		at := make([]float64, len(names))
		folders := map[string]bool{}
		for _, r := range rounds {
			folders[filepath.Clean(r.folder)] = true
			selected, err := selection(r.options)
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				if selected(name) {
					at[i] += r.options.speed
				}
			}
		}
		if len(rounds) != c.rounds || len(folders) != c.rounds {
			t.Errorf("focus %q skip %q speed %g: rounds %+v, want %d, each with its folder", c.focus, c.skip, c.speed, rounds, c.rounds)
		}
		for i, name := range names {
			if at[i] != c.at[i] {
				t.Errorf("focus %q skip %q speed %g: %s runs at %g, want %g", c.focus, c.skip, c.speed, name, at[i], c.at[i])
			}
		}
	}
	for _, o := range []options{{suite: regression, focus: "("}, {suite: regression, skip: "("}} {
		if _, err := roundsOf(names, o, "out"); err == nil {
			t.Errorf("focus %q skip %q was accepted", o.focus, o.skip)
		}
	}
}

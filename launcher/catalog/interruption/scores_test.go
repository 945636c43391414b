package interruption_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
)

// Each point below the best score doubles the prior of an offering. One without a score has the prior of its type, and what was seen outweighs a score.
func TestScoresArePriors(t *testing.T) {
	priors := interruption.Priors{Scores: interruption.Scores{"m5": {Zones: map[string]int{"a": 10, "b": 7, "c": 1}}}}
	r := interruption.Record{}
	prior := r.PerHour(large("a"), interruption.Priors{})
	for zone, want := range map[string]float64{"a": 1, "b": 8, "c": 512, "d": 1} {
		if got := r.PerHour(large(zone), priors) / prior; math.Abs(got-want) > 1e-9 {
			t.Errorf("zone %s: %v times the prior, want %v", zone, got, want)
		}
	}
	if got := r.PerHour(interruption.Offering{InstanceType: "m5d.large", Zone: "c"}, priors); got != prior {
		t.Errorf("%v for another family, want the prior %v", got, prior)
	}
	r.Seen = map[interruption.Offering]interruption.Seen{large("c"): {Hours: 10000}}
	if got := r.PerHour(large("c"), priors); got > 2*prior*512/100 {
		t.Errorf("%v after 10,000 quiet hours", got)
	}
}

// Each family is asked about once per hour, those that are known first, and eight new ones within a day; one that is wanted no more is forgotten after a day.
func TestFewScoresAreAskedFor(t *testing.T) {
	var wanted []string
	for i := range 12 {
		wanted = append(wanted, fmt.Sprintf("m%d", i))
	}
	scores, calls, changes := interruption.Scores(nil), map[string]int{}, 0
	ask := func(from, to time.Duration, wanted []string) (answered int) {
		for at := from; at < to; at += time.Minute {
			now := noon().Add(at)
			if family := scores.Due(now, wanted); family != "" {
				var changed bool
				if scores, changed = scores.Answered(now, family, map[string]int{"a": 9}); changed {
					changes++
				}
				calls[family]++
				answered++
			}
		}
		return answered
	}
	if got := ask(0, time.Hour, wanted); got != 8 || changes != 8 {
		t.Errorf("%d answers with %d changes within an hour, want 8", got, changes)
	}
	if ask(time.Hour, 24*time.Hour, wanted); len(calls) != 8 || calls["m0"] != 24 || changes != 8 {
		t.Errorf("calls within a day: %v with %d changes, want 24 for each of 8 families", calls, changes)
	}
	if ask(24*time.Hour, 25*time.Hour, wanted); len(calls) != 12 {
		t.Errorf("calls on the next day: %v, want all 12 families", calls)
	}
	if ask(25*time.Hour, 50*time.Hour, wanted[:1]); len(scores) != 1 {
		t.Errorf("%d families are remembered, want the one that is wanted", len(scores))
	}
}

// Scores are stored and read again; what cannot be a score is left out and said.
func TestParseScores(t *testing.T) {
	scores, _ := interruption.Scores(nil).Answered(noon(), "m5", map[string]int{"a": 9, "b": 1})
	text, err := scores.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, faults, err := interruption.ParseScores(text)
	if diff := cmp.Diff(scores, again); diff != "" || len(faults) > 0 || err != nil {
		t.Errorf("%s, %v, %v", diff, faults, err)
	}
	known, faults := interruption.Read(map[string]string{interruption.ScoresKey: `m5: {zones: {a: 11, b: 3}}`})
	if len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), "data[placement-scores.json]: reading placement scores: m5: a: a score from 1 to 10 is expected, got 11") {
		t.Errorf("faults %v", faults)
	}
	if got, want := known.PerHour(large("b"))/known.PerHour(large("a")), 128.0; math.Abs(got-want) > 1e-9 {
		t.Errorf("%v times as many interruptions with a score of 3, want %v", got, want)
	}
	if _, faults := interruption.Read(map[string]string{interruption.ScoresKey: "["}); len(faults) != 1 {
		t.Errorf("faults %v of a text that is no YAML", faults)
	}
}

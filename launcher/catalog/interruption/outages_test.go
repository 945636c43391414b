package interruption_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
)

// outages has EC2 take nodes of the offering back so often, two within a minute, each time when they have lasted so long. It returns when the last one
// was taken.
func outages(r *interruption.Record, o interruption.Offering, n int, lasted time.Duration) time.Time {
	at := noon()
	for i := range n {
		since := at
		at = at.Add(lasted)
		for j := range 2 {
			r.Observe(at.Add(time.Duration(j)*time.Minute), []interruption.Node{{ID: fmt.Sprint(o, i, "-", j), Offering: o, Since: since, Interrupted: true}})
		}
	}
	return at.Add(time.Minute)
}

// An offering settles ten minutes after the last node that was taken back, however often that happened; other offerings have settled.
func TestSettles(t *testing.T) {
	r := &interruption.Record{}
	for n := range 5 {
		last := outages(r, large("a"), n+1, 40*time.Minute)
		if got := r.SettlesAt(large("a")).Sub(last); got != interruption.SettleAfter {
			t.Errorf("after %d outages it settles in %v", n+1, got)
		}
	}
	if at := r.SettlesAt(large("b")); !at.IsZero() {
		t.Errorf("what was never interrupted settles at %v", at)
	}
}

// How long nodes last is learned from each outage, in which several nodes count as one: of the offering, half as fast of its zone, and of no other zone.
func TestLasts(t *testing.T) {
	xlarge := interruption.Offering{InstanceType: "m5.xlarge", Zone: "a"}
	for _, tc := range []struct {
		outages     int
		lasted      time.Duration
		own, inZone time.Duration
	}{
		{0, time.Hour, 2 * time.Hour, 2 * time.Hour},
		{1, 20 * time.Minute, 102 * time.Minute, 108 * time.Minute},
		{4, 20 * time.Minute, 65 * time.Minute, 79 * time.Minute},
		{12, 20 * time.Minute, 33 * time.Minute, 43 * time.Minute},
		{12, 80 * time.Minute, 87 * time.Minute, 92 * time.Minute},
		{12, 100 * time.Hour, 2 * time.Hour, 2 * time.Hour},
	} {
		r := &interruption.Record{}
		outages(r, large("a"), tc.outages, tc.lasted)
		for o, want := range map[interruption.Offering]time.Duration{large("a"): tc.own, xlarge: tc.inZone, large("b"): interruption.Longest} {
			if got := r.Lasts(o); (got - want).Abs() > 2*time.Minute {
				t.Errorf("%d outages after %v: a node of %s is expected to last %v, want %v", tc.outages, tc.lasted, o, got, want)
			}
		}
	}
}

// What was learned of outages is the same after a restart, fades once there are none, and is forgotten.
func TestLastsFades(t *testing.T) {
	r := &interruption.Record{}
	last := outages(r, large("a"), 12, 20*time.Minute)
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := interruption.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := r.Lasts(large("a")).Round(time.Second), again.Lasts(large("a")).Round(time.Second); was != is {
		t.Errorf("a node is expected to last %v after a restart, %v before", is, was)
	}
	before := again.Lasts(large("a"))
	for _, days := range []int{1, 4, 16} {
		again.Observe(last.Add(time.Duration(days)*24*time.Hour), nil)
		if after := again.Lasts(large("a")); after <= before || after > interruption.Longest {
			t.Errorf("%d days later a node is expected to last %v, want more than %v", days, after, before)
		} else {
			before = after
		}
	}
	if before < interruption.Longest-time.Minute {
		t.Errorf("16 days later a node is expected to last %v, want about %v", before, interruption.Longest)
	}
	again.Observe(last.Add(21*24*time.Hour), nil)
	if len(again.Zones) != 0 {
		t.Errorf("%v is remembered for ever", again.Zones)
	}
}

// A record of an older version, or one that somebody has changed, has no time that nodes lasted, or one that cannot be: that is as if nothing was learned.
func TestLastsOfOtherRecords(t *testing.T) {
	for _, outages := range []string{`"row":3`, `"lasted":-1`, `"lasted":1e300`} {
		r, err := interruption.Decode(`{"through":"2026-03-04T12:00:00Z","seen":{"m5.large/a":{"hours":1,"interruptions":1,"last":"2026-03-04T12:00:00Z",` + outages + `}},"zones":{"a":{"last":"2026-03-04T12:00:00Z",` + outages + `}}}`)
		if err != nil {
			t.Fatal(err)
		}
		got := []any{r.Lasts(large("a")), r.SettlesAt(large("a")).Sub(noon())}
		if diff := cmp.Diff([]any{interruption.Longest, interruption.SettleAfter}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", outages, diff)
		}
	}
}

package drain_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/slipway-k8s/slipway/launcher/drain"
)

// TestNextAhead runs the files of testdata:
//
//	ahead waited=DURATION [ending] [late] [answered] [launching=N] [failed=N] [booting=N] [serving] [spare=DURATION]
//
// and prints what happens about the room for the pods before the first eviction.
func TestNextAhead(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			return ahead(t, d)
		})
	})
}

func ahead(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var r drain.Replacement
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "waited":
			var err error
			if r.Waited, err = time.ParseDuration(arg.Vals[0]); err != nil {
				t.Fatal(err)
			}
		case "ending":
			r.InstanceEnds = true
		case "late":
			r.Late = true
		case "answered":
			r.Answered = true
		case "launching":
			d.ScanArgs(t, arg.Key, &r.Launching)
		case "failed":
			d.ScanArgs(t, arg.Key, &r.Failed)
		case "booting":
			d.ScanArgs(t, arg.Key, &r.Booting)
		case "serving":
			r.Serving = true
		case "spare":
			var err error
			if r.Spare, err = time.ParseDuration(arg.Vals[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return string(drain.NextAhead(r)) + "\n"
}

// Pods whose node ends get their whole grace period, and the evictions their time.
func TestSpare(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		ends, grace time.Duration
		want        time.Duration
	}{{0, time.Hour, 2 * time.Minute}, {2 * time.Minute, 30 * time.Second, time.Minute}, {2 * time.Minute, 2 * time.Minute, -30 * time.Second}} {
		var ends time.Time
		if tc.ends > 0 {
			ends = now.Add(tc.ends)
		}
		if got := drain.Spare(now, ends, tc.grace); got != tc.want {
			t.Errorf("the node ends in %s, a pod needs %s: %s to spare, want %s", tc.ends, tc.grace, got, tc.want)
		}
	}
}

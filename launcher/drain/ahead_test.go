package drain_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/slipway-k8s/slipway/launcher/drain"
)

// TestNextAhead runs the files of testdata:
//
//	ahead waited=DURATION [ending] [late] [answered] [launching=N] [failed=N]
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
		}
	}
	return string(drain.NextAhead(r)) + "\n"
}

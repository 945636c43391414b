package health_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/slipway-k8s/slipway/launcher/health"
)

// TestBreaker runs the files of testdata. A file is the life of one NodePool; times are since its start:
//
//	joined at=D                        a node joined
//	failed at=D created=D [why=(...)]  one did not whose NodeClaim was created then
//	restored healthy=true|false at=D   the launcher was restarted, the condition is what it was, or says message=(...)
//	gate at=D                          what may be launched
//
// Each command prints what may be launched then, and the condition's message.
func TestBreaker(t *testing.T) {
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		var b health.Breaker
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			at := func(key string) time.Time {
				var text string
				d.ScanArgs(t, key, &text)
				age, err := time.ParseDuration(text)
				if err != nil {
					t.Fatal(err)
				}
				return start.Add(age)
			}
			now := at("at")
			switch d.Cmd {
			case "joined":
				b = b.Joined()
			case "failed":
				why := ""
				if d.HasArg("why") {
					d.ScanArgs(t, "why", &why)
				}
				b = b.Failed(at("created"), now, why)
			case "restored":
				var healthy bool
				d.ScanArgs(t, "healthy", &healthy)
				message := b.Message()
				if d.HasArg("message") {
					d.ScanArgs(t, "message", &message)
				}
				b = health.Restored(healthy, now, message)
			case "gate":
			default:
				t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
			}
			g := b.Gate(now)
			switch {
			case g.Held:
				return fmt.Sprintf("healthy: %t; held for %s: %s\n", b.Healthy(), b.Until.Sub(now), g.Why)
			case g.OneAtATime:
				return fmt.Sprintf("healthy: %t; one at a time: %s\n", b.Healthy(), g.Why)
			}
			return fmt.Sprintf("healthy: %t; free\n", b.Healthy())
		})
	})
}

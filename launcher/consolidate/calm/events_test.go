package calm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
)

// A message that stays the same is recorded once in 55 minutes, others as they come, three in a quarter of an hour; what is not said any more is
// forgotten.
func TestEvents(t *testing.T) {
	begin := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for said, want := range map[string]string{
		"0a 10a 20a 54a 55a 56a":   "0a 55a",
		"0a 1b 2a 3b":              "0a 1b",
		"0a 1b 2a 16a 17b":         "0a 1b 16a 17b",
		"0a 1b 2c 3d 14d 15d":      "0a 1b 2c 15d",
		"0a 14b 20b 30a 40b 100b":  "0a 14b 30a 40b 100b",
		"0a 1b 2c 15c 30a 31a 90a": "0a 1b 2c 30a 90a",
	} {
		events, got := calm.Events{}, []string{}
		for word := range strings.FieldsSeq(said) {
			var minute int
			var message string
			if _, err := fmt.Sscanf(word, "%d%s", &minute, &message); err != nil {
				t.Fatal(err)
			}
			now := begin.Add(time.Duration(minute) * time.Minute)
			events.Forget(now)
			if events.IsNew("Unconsolidatable", "n", message, now) {
				got = append(got, word)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of %q recorded: %q, want %q", said, got, want)
		}
		events.Forget(begin.Add(4 * time.Hour))
		if len(events) != 0 {
			t.Errorf("%q: %d are not forgotten", said, len(events))
		}
	}
}

package election

import (
	"testing"
	"time"
)

// The wait for others begins when a Lease could be taken for the first time, and again when another replica has written it.
func TestLeft(t *testing.T) {
	type look struct {
		// at is when the Lease is read and could be taken, after the first time.
		at             time.Duration
		holder, record string
		want           time.Duration
	}
	for name, looks := range map[string][]look{
		"no Lease":        {{0, "", "", Patience}, {10 * time.Second, "", "", Patience - 10*time.Second}, {Patience, "", "", 0}, {time.Hour, "", "", 0}},
		"a Lease expired": {{0, "other", "1", Patience}, {Patience - 1, "other", "1", 1}, {Patience, "other", "1", 0}},
		"it was released": {{0, "", "1", Patience}, {Patience, "", "1", 0}},
		"another led meanwhile": {
			{0, "", "1", Patience},
			{20 * time.Second, "other", "2", Patience},
			{40 * time.Second, "other", "2", 10 * time.Second},
			{50 * time.Second, "", "3", Patience},
			{80 * time.Second, "", "3", 0},
		},
		"it was deleted": {{0, "other", "1", Patience}, {20 * time.Second, "", "", Patience}},
	} {
		t.Run(name, func(t *testing.T) {
			var s sight
			start := time.Now()
			for _, l := range looks {
				s.look(l.holder, []byte(l.record))
				if got := s.left(start.Add(l.at)); got != l.want {
					t.Errorf("after %s: %s left, want %s", l.at, got, l.want)
				}
			}
		})
	}
}

package bill

import (
	"math"
	"testing"
	"time"
)

// A node that leaves may be in no observation, and with its end in the one after that: it is charged as one that was observed all the time.
func TestNodeThatIsObservedOnceMore(t *testing.T) {
	start := noon()
	for name, tc := range map[string]struct {
		ran, interrupted time.Duration
		taken            bool
		want             float64
	}{
		"for long":                      {ran: 125 * time.Second, want: 125 + 0.1*15},
		"for less than a minute":        {ran: 15 * time.Second, want: 60},
		"taken back":                    {ran: 125 * time.Second, taken: true, want: 0.1 * 140},
		"taken back at once":            {ran: 15 * time.Second, taken: true, want: 0.1 * 60},
		"interrupted, then terminated":  {ran: 125 * time.Second, interrupted: 95 * time.Second, want: 125 + 0.1*15},
		"interrupted, and taken back":   {ran: 125 * time.Second, interrupted: 95 * time.Second, taken: true, want: 0.1 * 140},
		"interrupted before it is lost": {ran: 125 * time.Second, interrupted: 121 * time.Second, want: 125 + 0.1*15},
	} {
		l, n := &Ledger{}, node("n", start, pod("a", "web", 1000, 4<<30, start))
		n.Interruptible = true
		observe := func(after time.Duration, nodes ...Node) { l.Observe(Observation{At: start.Add(after), Nodes: nodes}) }
		after := time.Duration(0)
		for ; after < tc.ran; after += 10 * time.Second {
			if tc.interrupted > 0 && after > tc.interrupted {
				n.Interrupted = start.Add(tc.interrupted)
			}
			observe(after, n)
			if !n.Interrupted.IsZero() {
				n.Pods = nil // They are evicted.
			}
		}
		observe(after)
		n.Ended, n.TakenAway = start.Add(tc.ran), tc.taken
		if tc.interrupted > 0 {
			n.Interrupted = start.Add(tc.interrupted)
		}
		observe(after+10*time.Second, n)
		observe(after + 20*time.Second)
		observe(after + 10*time.Minute)
		requested, idle, lost, _ := totals(l)
		if got := (requested + idle + lost) * 3600; math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("%s: %v node seconds are charged, want %v", name, got, tc.want)
		}
		row := l.Days[DateOf(start)].Hours[12].Rows[Key{Namespace: "a", Kind: "Deployment", Name: "web"}]
		if !near(row.Lost, lost) || (row.Interrupted == 1) != (tc.interrupted > 0) {
			t.Errorf("%s: of %v USD lost the workload has %v, interrupted %d times", name, lost, row.Lost, row.Interrupted)
		}
		if len(l.left)+len(l.young)+len(l.struck) > 0 {
			t.Errorf("%s: %d nodes, %d charges and %d interruptions are kept", name, len(l.left), len(l.young), len(l.struck))
		}
	}
}

package beside_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/karpenter/beside"
)

func run(phase, side string, seconds, usd float64) beside.Run {
	return beside.Run{Phase: phase, Side: side, Figures: []beside.Figure{beside.Seconds("Running", seconds), beside.USD("USD/h", usd)}}
}

// Each figure has its own median, a run that did not end is counted and not measured, and phases stay in the order in which they ran.
func TestTables(t *testing.T) {
	runs := []beside.Run{
		run("out", "a", 3, 1), run("out", "b", 2, 0.5), run("out", "a", 1, 3), run("out", "a", 2, 2),
		{Phase: "out", Side: "b"},
		run("in", "a", math.NaN(), 1),
		{Phase: "in", Side: "b"},
	}
	want := strings.TrimLeft(`
| out | runs | Running | USD/h |
|---|--:|--:|--:|
| a | 3 | 2 s | 2.00 |
| b | 1 of 2 | 2 s | 0.50 |

| in | runs | Running | USD/h |
|---|--:|--:|--:|
| a | 1 | not reached | 1.00 |

in: of the runs of b, 0 of 1 ended.
`, "\n")
	if got := strings.TrimLeft(beside.Tables(runs, []string{"a", "b"}), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// What was not reached in half of the runs is no median, and is larger than any time.
func TestMedianNotReached(t *testing.T) {
	runs := []beside.Run{run("out", "a", 1, 1), run("out", "a", math.NaN(), 1), run("out", "a", 5, 1)}
	if m, n := beside.Median(runs, "out", "a"); n != 3 || m.Get("Running") != 5 {
		t.Errorf("got %v of %d runs, want 5 of 3", m.Get("Running"), n)
	}
	if m, _ := beside.Median(runs[:2], "out", "a"); !math.IsNaN(m.Get("Running")) {
		t.Errorf("got %v, want none", m.Get("Running"))
	}
	if m, n := beside.Median(runs, "out", "b"); n != 0 || !math.IsNaN(m.Get("Running")) {
		t.Errorf("got %v of %d runs, want none", m, n)
	}
}

func TestSeries(t *testing.T) {
	s := beside.Series{{0, 4, 10}, {30 * time.Second, 6, 8}, {90 * time.Second, 2, 12}, {3 * time.Minute, 2, 10}}
	for at, want := range map[time.Duration]float64{0: 4, 29 * time.Second: 4, time.Minute: 6, 2 * time.Minute: 2, 3 * time.Minute: 2} {
		if got := s.USDAt(at); got != want {
			t.Errorf("the bill after %s: got %v, want %v", at, got, want)
		}
	}
	if got := s.USDAt(4 * time.Minute); !math.IsNaN(got) {
		t.Errorf("the bill after the end: got %v, want none", got)
	}
	// Half a minute at 4, one at 6, one and a half at 2: beyond 4 that is one minute at 2 less one and a half at 2.
	if got, want := s.Paid(4), (2-1.5*2)/60.0; math.Abs(got-want) > 1e-9 {
		t.Errorf("paid beyond 4: got %v, want %v", got, want)
	}
	if got := s.Missing(10); got != 2*60 {
		t.Errorf("missing: got %v pod seconds, want 120: more Ready than wanted make up for none", got)
	}
	if got := s.Steady(time.Minute); got != 90 {
		t.Errorf("steady: got %v, want 90", got)
	}
	if got := s.Steady(2 * time.Minute); !math.IsNaN(got) {
		t.Errorf("steady: got %v, want none: it has changed within two minutes of the end", got)
	}
	if got := beside.Series(nil).Steady(0); !math.IsNaN(got) {
		t.Errorf("steady without samples: got %v", got)
	}
}

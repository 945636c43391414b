package bill

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// The instance of a spot node that EC2 takes back within an hour is charged to nothing, over any number of hours and days; its volumes are. One that the
// launcher terminated, one that ran for longer, and one on demand are charged.
func TestFirstHour(t *testing.T) {
	midnight := noon().Truncate(24 * time.Hour).Add(24 * time.Hour)
	for _, tc := range []struct {
		what        string
		ran         time.Duration
		spot, taken bool
		free        bool
	}{
		{"taken back", 50 * time.Minute, true, true, true},
		{"taken back at once", 20 * time.Second, true, true, true},
		{"terminated by the launcher", 50 * time.Minute, true, false, false},
		{"terminated by the launcher at once", 20 * time.Second, true, false, false},
		{"taken back after an hour", 61 * time.Minute, true, true, false},
		{"on demand", 50 * time.Minute, false, true, false},
	} {
		l, start := &Ledger{}, midnight.Add(-30*time.Minute)
		l.Observe(Observation{At: start})
		n := node("n", start, pod("a", "web", 1000, 4<<30, start))
		n.Interruptible = tc.spot
		other := node("other", start, n.Pods[0])
		for after := 10 * time.Second; after < tc.ran+3*time.Minute; after += 10 * time.Second {
			if after > tc.ran-2*time.Minute {
				n.Interrupted = later(start, start.Add(tc.ran-2*time.Minute))
			}
			o := Observation{At: start.Add(after), Nodes: []Node{other}}
			if after >= tc.ran {
				n.Ended, n.TakenAway = start.Add(tc.ran), tc.taken
			}
			if after < tc.ran+30*time.Second {
				o.Nodes = append(o.Nodes, n)
			}
			l.Observe(o)
		}
		instances, rows := instanceCharges(t, l)
		others := 0.9 * l.Through.Sub(start).Hours()
		instances, rows = instances-others, rows-others/2
		want, wantRows := 0.9*max(tc.ran, least).Hours(), 0.45*max(tc.ran-2*time.Minute, 0).Hours()
		if tc.free {
			want, wantRows = 0, 0
		}
		if math.Abs(instances-want) > 1e-9 || math.Abs(rows-wantRows) > 1e-9 {
			t.Errorf("%s: instances cost %v, pods are charged %v; want %v and %v", tc.what, instances, rows, want, wantRows)
		}
		if len(l.young) > 1 {
			t.Errorf("%s: the charges of %d nodes are kept", tc.what, len(l.young))
		}
	}
}

// instanceCharges returns what instances cost, and what of it pods are charged.
func instanceCharges(t *testing.T, l *Ledger) (instances, rows float64) {
	t.Helper()
	for _, d := range l.Days {
		for _, h := range d.hours() {
			for _, p := range h.Pools {
				instances += p.Total().Instance
				if low := min(p.Requested.Instance, p.Idle.Instance, p.Interrupted.Instance); low < -1e-9 {
					t.Errorf("pool %+v", p)
				}
			}
			for _, r := range h.Rows {
				rows += r.Parts.Instance
			}
		}
	}
	return instances, rows
}

// What was folded since is taken off what stands for it.
func TestFirstHourOfFoldedWorkloads(t *testing.T) {
	l, start := &Ledger{}, noon()
	l.Observe(Observation{At: start})
	n := node("n", start)
	n.Interruptible, n.Allocatable = true, Amounts{CPU: 1 << 20, Memory: 1 << 50}
	for i := range 3000 {
		n.Pods = append(n.Pods, pod("many", fmt.Sprint("w", i), int64(1+i%7), 1<<20, start))
	}
	l.Observe(Observation{At: start.Add(10 * time.Minute), Nodes: []Node{n}})
	n.Ended, n.TakenAway, n.Interrupted = start.Add(12*time.Minute), true, start.Add(10*time.Minute)
	l.Observe(Observation{At: start.Add(13 * time.Minute), Nodes: []Node{n}})
	if instances, rows := instanceCharges(t, l); math.Abs(instances)+math.Abs(rows) > 1e-9 {
		t.Errorf("instances cost %v USD, workloads are charged %v", instances, rows)
	}
	h := l.Days[DateOf(start)].Hours[12]
	if len(h.Rows) > MostKeys || h.Pools["default"].Total().Volumes == 0 {
		t.Errorf("%d workloads, pool %+v", len(h.Rows), h.Pools["default"])
	}
}

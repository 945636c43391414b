package bill

import (
	"fmt"
	"maps"
	"math"
	"slices"
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

// restarted returns the ledger that goes on with what the last one wrote.
func restarted(t *testing.T, l *Ledger) *Ledger {
	t.Helper()
	var records []Record
	for _, date := range slices.Sorted(maps.Keys(l.Days)) {
		text, err := Encode(l.Record("c", date))
		if err != nil {
			t.Fatal(err)
		}
		record, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	return records[len(records)-1].Ledger(records...)
}

// sharesAndVolumes returns the workloads' shares of what is idle and of what was lost, and what volumes cost.
func sharesAndVolumes(l *Ledger) (beside, volumes float64) {
	for _, d := range l.Days {
		for _, h := range d.hours() {
			for _, r := range h.Rows {
				beside += r.Idle + r.Lost
			}
			volumes += h.Pools["default"].Total().Volumes
		}
	}
	return beside, volumes
}

// A restart of the launcher, also one after midnight, loses nothing of what EC2 takes back: neither of the pool nor of the workloads and their shares.
func TestFirstHourSurvivesARestart(t *testing.T) {
	midnight := noon().Truncate(24 * time.Hour).Add(24 * time.Hour)
	for _, before := range []time.Duration{10 * time.Minute, 25 * time.Minute, 45 * time.Minute} {
		l, start := &Ledger{}, midnight.Add(-30*time.Minute)
		l.Observe(Observation{At: start})
		n := node("n", start, pod("a", "web", 1000, 4<<30, start), pod("b", "db", 500, 1<<30, start))
		n.Interruptible = true
		for after := time.Minute; after <= 50*time.Minute; after += time.Minute {
			if after > 48*time.Minute {
				n.Interrupted = start.Add(48 * time.Minute)
			}
			l.Observe(Observation{At: start.Add(after), Nodes: []Node{n}})
			l.ForgetDays()
			if after == before {
				l = restarted(t, l)
			}
		}
		if instances, _ := instanceCharges(t, l); instances < 0.7 {
			t.Errorf("restart after %s: instances cost %v before EC2 takes it back", before, instances)
		}
		n.Ended, n.TakenAway = start.Add(50*time.Minute), true
		l.Observe(Observation{At: start.Add(51 * time.Minute), Nodes: []Node{n}})
		instances, rows := instanceCharges(t, l)
		beside, volumes := sharesAndVolumes(l)
		if math.Abs(instances) > 1e-7 || math.Abs(rows) > 1e-7 || beside <= 0 || beside > volumes {
			t.Errorf("restart after %s: instances cost %v, pods are charged %v, with %v beside; of the volumes' %v", before, instances, rows, beside, volumes)
		}
		l.Observe(Observation{At: start.Add(100 * time.Minute)})
		if l.ForgetDays(); len(l.young) != 0 || len(l.struck) != 0 || len(l.Days) != 1 {
			t.Errorf("%d nodes, %d interruptions and %d days are kept", len(l.young), len(l.struck), len(l.Days))
		}
	}
}

// A node that ends in the last minute of a day leaves in the next one, when the day has been written: it is charged, and the day keeps what it had.
func TestDayIsNotBegunAnewAfterMidnight(t *testing.T) {
	midnight := noon().Truncate(24 * time.Hour).Add(24 * time.Hour)
	yesterday := DateOf(midnight.Add(-time.Second))
	l := &Ledger{}
	l.Observe(Observation{At: midnight.Add(-2 * time.Hour)})
	long := node("long", midnight.Add(-2*time.Hour))
	short := node("short", midnight.Add(-40*time.Second))
	short.Ended = midnight.Add(-20 * time.Second)
	l.Observe(Observation{At: midnight.Add(-10 * time.Second), Nodes: []Node{long, short}})
	l.Observe(Observation{At: midnight.Add(20 * time.Second), Nodes: []Node{long, short}})
	hours := func() (sum float64) {
		for _, h := range l.Days[yesterday].hours() {
			sum += h.Pools["default"].NodeHours
		}
		return sum
	}
	before := hours()
	l.ForgetDays()
	read := restarted(t, l)
	read.seen = l.seen
	l = read
	l.Observe(Observation{At: midnight.Add(40 * time.Second), Nodes: []Node{long}})
	l.ForgetDays()
	if after := hours(); math.Abs(after-before-20.0/3600) > 1e-9 || before < 2 {
		t.Errorf("the day has %.5f hours of nodes in place of %.5f and 20 s: the node is charged for a minute", after, before)
	}
	for after := time.Minute; after <= 70*time.Minute; after += time.Minute {
		l.Observe(Observation{At: midnight.Add(after), Nodes: []Node{long, short}})
		l.ForgetDays()
	}
	l.Observe(Observation{At: midnight.Add(71 * time.Minute), Nodes: []Node{long}})
	if _, kept := l.Days[yesterday]; kept {
		t.Errorf("the day is kept, or begun anew, an hour after its end")
	}
}

// The charges that a record has are bounded, and give way before a workload does.
func TestYoungNodesAreBounded(t *testing.T) {
	l, start := &Ledger{}, noon()
	l.Observe(Observation{At: start})
	o := Observation{At: start.Add(5 * time.Minute)}
	for i := range 3 * mostYoung {
		n := node(fmt.Sprint("n", i), start)
		n.Interruptible, n.PerHour.Instance = true, float64(i+1)
		for k := range 30 {
			n.Pods = append(n.Pods, pod("many", fmt.Sprint("w", (i*7+k*31)%MostKeys), int64(10+k), 1<<20, start))
		}
		o.Nodes = append(o.Nodes, n)
	}
	l.Observe(o)
	record := l.Record("c", DateOf(start))
	text, err := Encode(record)
	if err != nil || len(text) > MostBytes {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	record, err = Decode(text)
	if err != nil || len(record.young) > mostYoung || len(record.Day.keys()) != MostKeys {
		t.Fatalf("%d nodes, %d workloads, %v", len(record.young), len(record.Day.keys()), err)
	}
	if len(record.young) > 0 && record.young[0].id != fmt.Sprint("n", 3*mostYoung-1) {
		t.Errorf("the first one is %s, want the one that was charged most", record.young[0].id)
	}
}

package bill

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// noon is the time of the tests; the hour after it is not over.
func noon() time.Time { return time.Date(2026, 11, 23, 12, 30, 0, 0, time.UTC) }

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func pod(namespace, name string, cpu, memory int64, since time.Time) Pod {
	return Pod{UID: namespace + "/" + name, Key: Key{Namespace: namespace, Kind: "Deployment", Name: name}, Requests: Amounts{CPU: cpu, Memory: memory}, Since: since}
}

// node has 2 CPUs and 8 GiB, and costs 1 USD per hour.
func node(id string, since time.Time, pods ...Pod) Node {
	return Node{ID: id, NodePool: "default", Since: since, PerHour: Parts{Instance: 0.9, Volumes: 0.1}, Allocatable: Amounts{CPU: 2000, Memory: 8 << 30}, Pods: pods}
}

// totals returns the sums of a ledger by pool part and by workload.
func totals(l *Ledger) (requested, idle, interrupted float64, rows map[string]float64) {
	rows = map[string]float64{}
	for _, d := range l.Days {
		for _, h := range d.Hours {
			if h == nil {
				continue
			}
			for _, p := range h.Pools {
				requested, idle, interrupted = requested+p.Requested.Total(), idle+p.Idle.Total(), interrupted+p.Interrupted.Total()
			}
			for k, r := range h.Rows {
				rows[k.Namespace+"/"+k.Name] += r.Parts.Total()
			}
		}
	}
	return requested, idle, interrupted, rows
}

// A pod is charged its share of the node while it is there; the rest is idle. Hours are those of UTC.
func TestShares(t *testing.T) {
	l, start := &Ledger{}, noon()
	half := pod("a", "web", 1000, 4<<30, start)
	l.Observe(Observation{At: start, Nodes: []Node{node("n", start, half)}})
	for at := start.Add(time.Minute); !at.After(start.Add(time.Hour)); at = at.Add(time.Minute) {
		nodes := []Node{node("n", start, half)}
		if at.After(start.Add(30 * time.Minute)) {
			nodes[0].Pods = append(nodes[0].Pods, pod("b", "job", 1000, 0, start.Add(30*time.Minute)))
		}
		l.Observe(Observation{At: at, Nodes: nodes})
	}
	requested, idle, _, rows := totals(l)
	cpu := 2 * usdPerCPU / (2*usdPerCPU + 8*usdPerGiB) // The weight of CPU.
	if !near(requested+idle, 1) || !near(rows["a/web"], 0.5) || !near(rows["b/job"], 0.25*cpu) || !near(requested, 0.5+0.25*cpu) {
		t.Errorf("requested %v, idle %v, rows %v", requested, idle, rows)
	}
	day := l.Days[DateOf(start)]
	for _, hour := range []int{12, 13} {
		if h := day.Hours[hour]; !near(h.Observed, 1800) || !near(h.Pools["default"].NodeHours, 0.5) {
			t.Errorf("hour %d: %v s observed, pool %+v", hour, h.Observed, h.Pools["default"])
		}
	}
}

// What one pod requests changes no charge of those that came before it, and no more than the node is charged for.
func TestNoPodChangesTheChargeOfAnother(t *testing.T) {
	charge := func(pods ...Pod) (float64, map[string]float64) {
		l := &Ledger{}
		l.Observe(Observation{At: noon()})
		n := node("n", noon(), pods...)
		n.Burst = catalog.Charges{BaselineCPU: 400, SurplusCPU: 0.05}
		l.Observe(Observation{At: noon().Add(time.Hour), Nodes: []Node{n}})
		requested, idle, _, rows := totals(l)
		return requested + idle, rows
	}
	victim := pod("victim", "web", 500, 1<<30, noon())
	_, alone := charge(victim)
	for _, attack := range []Pod{
		pod("attacker", "huge", 1<<60, 1<<60, noon().Add(time.Second)), pod("attacker", "negative", -1<<60, -1<<60, noon().Add(time.Second)),
		pod("attacker", "fits", 1500, 7<<30, noon().Add(time.Second)),
	} {
		total, rows := charge(attack, victim)
		if !near(rows["victim/web"], alone["victim/web"]) {
			t.Errorf("%s: the victim is charged %v, alone %v", attack.Key.Name, rows["victim/web"], alone["victim/web"])
		}
		if most := 1 + 1.6*0.05; total > most+1e-9 || rows["attacker/"+attack.Key.Name] < 0 {
			t.Errorf("%s: the node costs %v, at most %v; rows %v", attack.Key.Name, total, most, rows)
		}
	}
}

// Nodes are charged from their launch to the observation before they are gone, a minute at least; after a restart the record goes on where it
// ended, and the first observation of a record charges nothing.
func TestLives(t *testing.T) {
	l, start := &Ledger{}, noon()
	sees := func(after time.Duration, want float64, nodes ...Node) {
		t.Helper()
		l.Observe(Observation{At: start.Add(after), Nodes: nodes})
		requested, idle, _, _ := totals(l)
		if got := (requested + idle) * 3600; math.Abs(got-want) > 1e-6 {
			t.Errorf("after %s %v node seconds are charged, want %v", after, got, want)
		}
	}
	old := node("old", start.Add(-time.Hour))
	sees(0, 0, old)
	sees(10*time.Second, 10, old)
	launched := node("launched", start.Add(15*time.Second))
	sees(20*time.Second, 20+5, old, launched)
	late := node("late", start.Add(18*time.Second)) // The cache had it after the last observation.
	sees(30*time.Second, 30+15+12, old, launched, late)
	sees(40*time.Second, 40+60+22, old, late)
	sees(35*time.Second, 40+60+22, old, late) // The clock was set back.

	record := Record{Start: l.Start, Through: l.Through, Day: l.Days[DateOf(start)]}
	text, err := Encode(record)
	if err != nil {
		t.Fatal(err)
	}
	if record, err = Decode(text); err != nil {
		t.Fatal(err)
	}
	l = record.Ledger()
	meanwhile := node("meanwhile", start.Add(100*time.Second))
	sees(160*time.Second, 160+60+142+60, old, late, meanwhile)
	if h := l.Days[DateOf(start)].Hours[12]; h.Observed != 160 {
		t.Errorf("%v s observed", h.Observed)
	}
	sees(700*time.Second, 700+60+682+600, old, late, meanwhile)
	if h := l.Days[DateOf(start)].Hours[12]; h.Observed != 160 {
		t.Errorf("%v s observed after a pause", h.Observed)
	}
}

// What no pod requests, and what is lost to an interruption, is divided among the workloads that the node runs for by what they request: not among DaemonSets.
func TestSharesOfWorkloads(t *testing.T) {
	l, start := &Ledger{}, noon()
	web, db, agent := pod("a", "web", 1000, 4<<30, start), pod("b", "db", 500, 2<<30, start), pod("kube-system", "agent", 250, 1<<30, start)
	agent.Key.Kind = "DaemonSet"
	n, empty := node("n", start, web, db, agent), node("empty", start, agent)
	l.Observe(Observation{At: start, Nodes: []Node{n, empty}})
	l.Observe(Observation{At: start.Add(10 * time.Minute), Nodes: []Node{n, empty}})
	n.Interrupted = start.Add(20 * time.Minute)
	l.Observe(Observation{At: start.Add(21 * time.Minute), Nodes: []Node{n, empty}})
	n.Pods = []Pod{agent} // The others are evicted.
	l.Observe(Observation{At: start.Add(22 * time.Minute), Nodes: []Node{n, empty}})
	_, idle, lost, _ := totals(l)
	rows := l.Days[DateOf(start)].Hours[12].Rows
	a, b := rows[web.Key], rows[db.Key]
	if !near(a.Idle, 2*b.Idle) || !near(a.Lost, 2*b.Lost) || rows[agent.Key].Idle != 0 || rows[agent.Key].Lost != 0 {
		t.Errorf("shares %+v, %+v, %+v", a, b, rows[agent.Key])
	}
	if unused := 0.125 * 20 / 60; !near(a.Idle+b.Idle, unused) || !near(idle-a.Idle-b.Idle, 0.875*22/60) {
		t.Errorf("idle %v, of it %v and %v are shares, want %v together and the other node's", idle, a.Idle, b.Idle, unused)
	}
	if !near(a.Lost+b.Lost, 2./60) || !near(lost, 2./60) {
		t.Errorf("lost %v, shares %v and %v", lost, a.Lost, b.Lost)
	}
}

// The fee of dedicated instances is charged once for each clock hour in which one of them ran, over restarts as well, and is in no NodePool and no workload.
func TestFeeOfDedicatedInstances(t *testing.T) {
	l, start := &Ledger{}, noon()
	a, b := node("a", start), node("b", start.Add(10*time.Minute))
	a.HourFee, b.HourFee = catalog.DedicatedFee, catalog.DedicatedFee
	for after := time.Duration(0); after <= 40*time.Minute; after += time.Minute {
		o := Observation{At: start.Add(after), Nodes: []Node{a}}
		if after >= 10*time.Minute {
			o.Nodes = append(o.Nodes, b)
		}
		l.Observe(o)
		if after == 20*time.Minute {
			l = restarted(t, l)
		}
	}
	a.Ended, b.Ended = start.Add(40*time.Minute), start.Add(40*time.Minute)
	l.Observe(Observation{At: start.Add(95 * time.Minute), Nodes: []Node{a, b}}) // 14:05: two hours had one, the third none.
	bill := New([]Record{l.Record("c", DateOf(start))}, ByNamespace)
	if !near(bill.Fee, 2*catalog.DedicatedFee) || !near(bill.Total, bill.Requested.Plus(bill.Idle).Total()+bill.Fee) {
		t.Errorf("fee %v of %v USD", bill.Fee, bill.Total)
	}
	out := bytes.Buffer{}
	if err := Write(&out, []Record{l.Record("c", DateOf(start))}, ByNodePool, FormatFOCUS); err != nil || strings.Count(out.String(), "Fee of the region for dedicated instances") != 2 {
		t.Errorf("FOCUS, %v:\n%s", err, out.String())
	}
}

// From its interruption on a node is charged to nobody, and its pods are counted once.
func TestInterruption(t *testing.T) {
	l, start := &Ledger{}, noon()
	n := node("n", start, pod("a", "web", 2000, 8<<30, start))
	l.Observe(Observation{At: start, Nodes: []Node{n}})
	l.Observe(Observation{At: start.Add(60 * time.Second), Nodes: []Node{n}})
	n.Interrupted = start.Add(90 * time.Second)
	for _, at := range []time.Duration{120, 180, 210} {
		l.Observe(Observation{At: start.Add(at * time.Second), Nodes: []Node{n}})
	}
	requested, idle, interrupted, rows := totals(l)
	if !near(requested*3600, 90) || !near(interrupted*3600, 120) || math.Abs(idle) > 1e-9 || !near(rows["a/web"]*3600, 90) {
		t.Errorf("requested %v, idle %v, interrupted %v, rows %v", requested, idle, interrupted, rows)
	}
	if r := l.Days[DateOf(start)].Hours[12].Rows[n.Pods[0].Key]; r.Interrupted != 1 {
		t.Errorf("%d pods were interrupted", r.Interrupted)
	}
}

// The time of an interruption has whole seconds: one that comes in the second of an observation is before it.
func TestInterruptionAfterAnObservation(t *testing.T) {
	l, start := &Ledger{}, noon()
	n := node("n", start, pod("a", "web", 2000, 8<<30, start))
	l.Observe(Observation{At: start, Nodes: []Node{n}})
	l.Observe(Observation{At: start.Add(60*time.Second + 300*time.Millisecond), Nodes: []Node{n}})
	n.Interrupted = start.Add(60 * time.Second) // It was at 60.7.
	for _, at := range []time.Duration{70, 80, 90} {
		l.Observe(Observation{At: start.Add(at * time.Second), Nodes: []Node{n}})
	}
	if r := l.Days[DateOf(start)].Hours[12].Rows[n.Pods[0].Key]; r.Interrupted != 1 {
		t.Errorf("%d pods were interrupted, want one", r.Interrupted)
	}
}

// From when its instance shuts down a node costs its volumes alone, and pods nothing; an instance that ran for less than a minute costs one.
func TestShutdown(t *testing.T) {
	l, start := &Ledger{}, noon()
	n, short := node("n", start, pod("a", "web", 2000, 8<<30, start)), node("short", start)
	l.Observe(Observation{At: start, Nodes: []Node{n, short}})
	l.Observe(Observation{At: start.Add(90 * time.Second), Nodes: []Node{n}})
	n.Ended = start.Add(100 * time.Second)
	l.Observe(Observation{At: start.Add(120 * time.Second), Nodes: []Node{n}})
	l.Observe(Observation{At: start.Add(150 * time.Second), Nodes: []Node{n}})
	l.Observe(Observation{At: start.Add(180 * time.Second)})
	brief := node("brief", start.Add(170*time.Second))
	brief.Ended = start.Add(172 * time.Second)
	l.Observe(Observation{At: start.Add(190 * time.Second), Nodes: []Node{brief}})
	l.Observe(Observation{At: start.Add(200 * time.Second)})
	requested, idle, _, rows := totals(l)
	// The volumes are a tenth: of n 50 seconds, of brief 18, whose minute is counted for all of it.
	if want := 60 + 5 + 2 + 1.8 + 58; !near(requested*3600, 100) || !near(rows["a/web"]*3600, 100) || math.Abs(idle*3600-want) > 1e-6 {
		t.Errorf("requested %v, rows %v, idle %v, want 100 and %v", requested*3600, rows, idle*3600, want)
	}
	n.Interrupted = start.Add(95 * time.Second)
	l = &Ledger{Start: start, Through: start, seen: map[string]Node{"n": n}}
	l.Observe(Observation{At: start.Add(150 * time.Second), Nodes: []Node{n}})
	if requested, idle, interrupted, _ := totals(l); !near(requested*3600, 95) || !near(interrupted*3600, 5+5) || !near(idle, 0) {
		t.Errorf("requested %v, idle %v, interrupted %v", requested*3600, idle*3600, interrupted*3600)
	}
}

// Accelerators weigh what they cost, and what Savings Plans have left is charged.
func TestAcceleratorsAndUnused(t *testing.T) {
	l := &Ledger{}
	n := node("n", noon(), Pod{UID: "g", Key: Key{Namespace: "ml"}, Requests: Amounts{Accelerators: 4}, Since: noon()})
	n.Allocatable.Accelerators = 4
	l.Observe(Observation{At: noon()})
	l.Observe(Observation{At: noon().Add(time.Minute), Nodes: []Node{n}, Unused: map[string]float64{"sp": 6}})
	_, _, _, rows := totals(l)
	if share := rows["ml/"] * 60; share < 0.95 || share > 1 {
		t.Errorf("the pod with all accelerators is charged %v of the node", share)
	}
	if usd := l.Days[DateOf(noon())].Hours[12].Unused["sp"]; !near(usd, 0.1) {
		t.Errorf("%v USD unused", usd)
	}
}

// Workloads of one namespace, however many, do not hide those of another one, and sums stay exact. The encoded day is bounded.
func TestFoldIsFair(t *testing.T) {
	l, start := &Ledger{}, noon()
	n := node("n", start, pod("small", "web", 10, 1<<20, start), pod("small", "db", 10, 1<<20, start))
	n.Allocatable = Amounts{CPU: 1 << 40, Memory: 1 << 50}
	for i := range 5000 {
		p := pod("many", fmt.Sprint("w", i), 1000, 1<<30, start)
		p.Key.Labels = LabelPrefix + "name=" + strings.Repeat("x", 50) + fmt.Sprint(rand.Int())
		n.Pods = append(n.Pods, p)
	}
	for i := range 700 {
		n.Pods = append(n.Pods, pod(fmt.Sprintf("ns%03d", i), "web", 5, 1<<10, start))
	}
	l.Observe(Observation{At: start})
	l.Observe(Observation{At: start.Add(time.Minute), Nodes: []Node{n}})
	before, _, _, all := totals(l)
	text, err := Encode(Record{Through: start, Start: start, Day: l.Days[DateOf(start)]})
	if err != nil || len(text) > MostBytes {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	after, _, _, rows := totals(l)
	if len(rows) > MostKeys || !near(before, after) {
		t.Errorf("%d rows, %v USD requested, before %v", len(rows), after, before)
	}
	for _, name := range []string{"small/web", "small/db"} {
		if !near(rows[name], all[name]) {
			t.Errorf("%s is charged %v, want %v", name, rows[name], all[name])
		}
	}
	many := 0.0
	for name, usd := range rows {
		if strings.HasPrefix(name, "many/") {
			many += usd
		}
	}
	if want := 5000 * all["many/w0"]; math.Abs(many-want) > 1e-6 || rows[Other+"/"] == 0 {
		t.Errorf("the namespace of many workloads is charged %v, want %v; other namespaces %v", many, want, rows[Other+"/"])
	}
}

// The largest day that folding leaves fits into a ConfigMap, whatever the names are. The day itself stays whole.
func TestLargestDay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	noise := func(n int) string {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte('a' + rng.IntN(26))
		}
		return string(out)
	}
	d := &Day{Date: DateOf(noon())}
	for range MostKeys + MostKeys/2 {
		k := Key{Namespace: noise(63), Kind: noise(63), Name: noise(253), Labels: noise(MostLabels)}
		for hour := range 24 {
			d.hour(hour).row(k).Parts = Parts{rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()}
			d.hour(hour).pool(noise(63)).Idle = Parts{Instance: rng.Float64()}
		}
		d.hour(0).Unused[noise(63)] = rng.Float64()
	}
	whole := d.clone()
	text, err := Encode(Record{Day: d})
	if err != nil || len(text) > MostBytes {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if !cmp.Equal(whole, d) {
		t.Error("encoding changed the day")
	}
	t.Logf("%d bytes", len(text))
}

// A record is read as it was written, to billionths; what is no record is an error.
func TestCodec(t *testing.T) {
	l := &Ledger{}
	l.Observe(Observation{At: noon()})
	l.Observe(Observation{
		At: noon().Add(time.Minute), Nodes: []Node{node("n", noon(), pod("a", "web", 333, 1<<30, noon()))}, Unused: map[string]float64{"sp": 1},
		Commitments: []catalog.CommitmentUse{{ID: "sp", Amount: 1, Left: 1, Unit: catalog.USDPerHour}},
	})
	want := Record{Cluster: "prod", Start: l.Start, Through: l.Through, Commitments: l.Commitments, Day: l.Days[DateOf(noon())]}
	text, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Record{}), cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-8 })); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	for _, bad := range [][]byte{nil, []byte("{}"), text[:len(text)/2]} {
		if _, err := Decode(bad); err == nil || !strings.HasPrefix(err.Error(), "reading ") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

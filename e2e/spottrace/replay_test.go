package spottrace

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
)

func zones() []string { return []string{"us-east-1a", "us-east-1b", "us-east-1c"} }

// generated is a replay of a generated market of so many days.
func generated(tb testing.TB, seed uint64, kind Kind, days, pods int) Config {
	tb.Helper()
	m, err := Market(zones())
	if err != nil {
		tb.Fatal(err)
	}
	return Config{Trace: Generate(seed, kind, days*288, m.OnDemand, zones()), Zones: zones(), Pods: pods, Share: "30%"}
}

// A trace that is written is read again as it was, and each mistake is reported with its line.
func TestReadTrace(t *testing.T) {
	c := generated(t, 1, Changing, 1, 1)
	c.Trace = c.Trace[:3]
	var text bytes.Buffer
	if err := c.Trace.Write(&text, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	got, err := Read(bytes.NewReader(text.Bytes()))
	if err != nil || len(got) != 3 {
		t.Fatalf("%d steps, %v", len(got), err)
	}
	for i := range got {
		for o, q := range c.Trace[i] {
			if have := got[i][o]; have.Available != q.Available || have.Price-q.Price > 1e-6 || q.Price-have.Price > 1e-6 {
				t.Errorf("step %d: %s is %+v, was %+v", i, o, have, q)
			}
		}
	}
	lines := strings.SplitAfterN(text.String(), "\n", 3)
	for name, bad := range map[string]string{
		"no header": lines[1], "no time": lines[0] + "noon,a,m5.large,1,1\n", "no price": lines[0] + "2026-03-04T00:00:00Z,a,m5.large,0,1\n",
		"backwards": lines[0] + "2026-03-04T01:00:00Z,a,m5.large,1,1\n2026-03-04T01:30:00Z,a,m5.large,1,1\n2026-03-04T00:00:00Z,a,m5.large,1,1\n",
		"a gap":     lines[0] + "2026-03-04T00:00:00Z,a,m5.large,1,1\n2027-03-04T00:00:00Z,a,m5.large,1,1\n",
	} {
		if _, err := Read(strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), "reading trace: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The same seed gives the same market, and the same replay.
func TestReplayIsDeterministic(t *testing.T) {
	c := generated(t, 3, Scarce, 1, 12)
	c.Trace = c.Trace[:24]
	if diff := cmp.Diff(c.Trace, generated(t, 3, Scarce, 1, 12).Trace[:24]); diff != "" {
		t.Error(diff)
	}
	first, err := Replay(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Replay(t.Context(), c)
	if err != nil || first != second {
		t.Errorf("%+v, then %+v, %v", first, second, err)
	}
}

// Four hours of the markets that take most nodes back keep the floor in every minute.
func TestFloorHolds(t *testing.T) {
	for _, kind := range []Kind{Scarce, Alternating} {
		t.Run(string(kind), func(t *testing.T) {
			c := generated(t, 2, kind, 1, 40)
			c.Trace = c.Trace[:48]
			r, err := Replay(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v, %.3f of the oracle", r, r.Dollars/r.Oracle)
			if r.Below != 0 || r.BelowPlaced != 0 {
				t.Errorf("%d minutes with fewer running pods than the floor, %d with fewer off spot", r.Below, r.BelowPlaced)
			}
			// Six outages in the alternating market: the 28 pods that may be on spot would be moved back 168 times, if nothing was learned from them.
			if most := 140; r.Evictions > most {
				t.Errorf("%d evictions of %d pods, want at most %d: they are moved to spot and back", r.Evictions, c.Pods, most)
			}
			// The ratios are 1.07 to 1.17.
			if free, moves := r.Dollars/r.Oracle, r.WithMoves/r.OracleMoves; moves > 1.3 || free > 1.45 || moves < 1 || r.OracleMoves < r.Oracle {
				t.Errorf("%.3f of the oracle, %.3f of the oracle that pays for its moves", free, moves)
			}
		})
	}
}

// With one instance type the bound of whole nodes counts the rest of a node that has fewer pods than it has room for, and is below what is paid.
func TestWholeNodes(t *testing.T) {
	const name = "m6i.2xlarge" // Room for 7 pods.
	c := generated(t, 1, Scarce, 1, 20)
	c.Trace = c.Trace[:12]
	for i := range c.Trace {
		for _, zone := range c.Zones {
			for _, other := range c.Trace.Types() {
				if other != name {
					delete(c.Trace[i], interruption.Offering{InstanceType: other, Zone: zone})
				}
			}
		}
	}
	r, err := Replay(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	c.Pods = 21
	full, err := Replay(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	// 20 pods need three nodes as 21 do, and 6 pods on demand as many as 7 do.
	if r.OracleWhole <= 0 || r.OracleWhole != full.OracleWhole {
		t.Errorf("no whole nodes for 20 pods cost less than %f, for 21 pods %f", r.OracleWhole, full.OracleWhole)
	}
	if r.OracleWhole <= r.OracleMoves || r.OracleWhole > r.WithMoves {
		t.Errorf("%f of whole nodes, %f of divisible ones, %f paid", r.OracleWhole, r.OracleMoves, r.WithMoves)
	}
}

func TestMain(m *testing.M) {
	flag.Int("spot.days", 2, "days of each generated trace")
	flag.Int("spot.pods", 100, "pods of the workload")
	flag.Int("spot.seeds", 1, "generated traces of each kind")
	flag.Int("spot.first", 1, "the first seed")
	flag.String("spot.kinds", "calm,changing,scarce,alternating", "kinds of generated traces")
	flag.String("spot.file", "", "recorded trace to replay beside the generated ones")
	os.Exit(m.Run())
}

// argument returns the number that a flag has.
func argument(tb testing.TB, name string) int {
	tb.Helper()
	n, err := strconv.Atoi(flag.Lookup(name).Value.String())
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// BenchmarkSpotTraces prints the figures of docs/benchmarks.md.
func BenchmarkSpotTraces(b *testing.B) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "trace\tUSD\toracle\tratio\twith moves\toracle with moves\tratio\tof whole nodes\tminutes below\tof\ton spot\tinterrupted nodes\tpods\tevictions\tlaunched\trefused launches\ttook")
	replay := func(name string, c Config) {
		began := time.Now()
		r, err := Replay(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		whole := "-"
		if r.OracleWhole > 0 {
			whole = fmt.Sprintf("%.3f", r.WithMoves/r.OracleWhole)
		}
		fmt.Fprintf(out, "%s\t%.2f\t%.2f\t%.3f\t%.2f\t%.2f\t%.3f\t%s\t%d\t%d\t%.0f%%\t%d\t%d\t%d\t%d\t%d\t%s\n", name, r.Dollars, r.Oracle, r.Dollars/r.Oracle,
			r.WithMoves, r.OracleMoves, r.WithMoves/r.OracleMoves, whole, max(r.Below, r.BelowPlaced), r.Minutes, 100*r.SpotShare, r.Interrupted, r.InterruptedPods, r.Evictions, r.Launched, r.Refused, time.Since(began).Round(time.Second))
		_ = out.Flush() // The figures of each trace as they come.
	}
	for range b.N {
		for kind := range strings.SplitSeq(flag.Lookup("spot.kinds").Value.String(), ",") {
			for i := range argument(b, "spot.seeds") {
				seed := argument(b, "spot.first") + i
				replay(fmt.Sprintf("%s %d", kind, seed), generated(b, uint64(seed), Kind(kind), argument(b, "spot.days"), argument(b, "spot.pods")))
			}
		}
		if file := flag.Lookup("spot.file").Value.String(); file != "" {
			f, err := os.Open(file)
			if err != nil {
				b.Fatal(err)
			}
			trace, err := Read(f)
			_ = f.Close() // It was only read.
			if err != nil {
				b.Fatal(err)
			}
			replay(file, Config{Trace: trace, Zones: trace.Zones(), Pods: argument(b, "spot.pods"), Share: "30%"})
		}
	}
}

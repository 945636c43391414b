package plan_test

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// input is the mix at n pods, from the generated catalogue, or from the one that SLIPWAY_CATALOG names: a directory with
// instance-types.json (as `aws ec2 describe-instance-types` prints), prices.json and zones.json.
func (x *mix) input(tb testing.TB, n int, seed uint64) plan.Input {
	tb.Helper()
	pool := poolYAML{Name: "default"}
	if !x.spot {
		pool.Requirements = []string{"karpenter.sh/capacity-type In on-demand"}
	}
	types := 400
	if os.Getenv("SLIPWAY_CATALOG") != "" {
		types = 0
	}
	in := world(tb, types, pool)
	if dir := os.Getenv("SLIPWAY_CATALOG"); dir != "" {
		in.Catalog.InstanceTypes = map[string][]catalog.InstanceType{"default": readCatalog(tb, dir)}
	}
	x.add(newBatch(&in, seed), n)
	return in
}

// resetPeak gives back what memory it can, and starts the count of peakRSS anew (proc_pid_clear_refs(5)).
func resetPeak(tb testing.TB) {
	tb.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil {
		tb.Fatal(err)
	}
}

// peakRSS is the most memory that this process had at a time since resetPeak, in bytes.
func peakRSS(tb testing.TB) int64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kib << 10
}

// BenchmarkMixes prints what the plans of the planner's goals cost, in seconds of CPU and in USD per hour.
func BenchmarkMixes(b *testing.B) {
	for _, x := range mixes() {
		b.Run(x.name, func(b *testing.B) {
			in := x.input(b, x.pods, 1)
			var p plan.Plan
			resetPeak(b)
			b.ReportAllocs()
			before := cputime.Used()
			for b.Loop() {
				p = plan.Make(b.Context(), in)
			}
			b.ReportMetric((cputime.Used()-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(peakRSS(b))/(1<<20), "peak-MiB")
			b.ReportMetric(p.CostPerHour, "USD/h")
			before = cputime.Used()
			bound := plan.LowerBound(b.Context(), in, &p)
			b.ReportMetric((cputime.Used() - before).Seconds(), "bound-cpu-s")
			b.ReportMetric(bound, "bound")
			b.ReportMetric(p.CostPerHour/bound, "cost/bound")
			b.ReportMetric(x.ratio, "goal")
			b.ReportMetric(p.FirstFitPerHour/bound, "firstfit/bound")
			b.ReportMetric(float64(len(p.Claims)), "nodes")
			left := 0
			for _, u := range p.Unplaced {
				left += len(u.Pods)
			}
			b.ReportMetric(float64(left), "unplaced")
		})
	}
}

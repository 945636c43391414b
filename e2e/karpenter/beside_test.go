package karpenter_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// ticks is how many clock ticks of /proc a second has: USER_HZ.
const ticks = 100

// figures are what one side did for a Deployment that was created at once on a cluster without nodes.
type figures struct {
	// claim is when the first NodeClaim was created, running when the last pod ran, both in seconds after the Deployment.
	claim, running float64
	nodes          int
	usd            float64
	// cpu is the CPU time of both processes from the Deployment to the last pod, in seconds, and memory their largest resident sizes together,
	// in MB.
	cpu, memory float64
}

// sides are the two that are compared, by what the table calls them.
func sides() map[string]string {
	return map[string]string{"Karpenter + kube-scheduler": karpenter, "slipway": "slipway"}
}

// BenchmarkBeside measures Karpenter with a stock kube-scheduler and slipway one after the other, each alone on a sandbox of its own, with the
// same NodePool and the same pods. The order turns with each round.
func BenchmarkBeside(b *testing.B) {
	rounds, pods := int(number(b, "rounds")), int(number(b, "pods"))
	measured := map[string][]figures{}
	order := []string{"Karpenter + kube-scheduler", "slipway"}
	for range rounds {
		for _, side := range order {
			b.Run(side, func(b *testing.B) { measured[side] = append(measured[side], measure(b, sides()[side])) })
		}
		slices.Reverse(order)
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 8, 1, ' ', tabwriter.Debug)
	_, _ = fmt.Fprintln(table, "\tpods\tlast pod Running\tfirst NodeClaim\tnodes\tUSD/h\tCPU s\tmemory")
	for _, side := range slices.Sorted(maps.Keys(measured)) {
		m := median(measured[side])
		_, _ = fmt.Fprintf(table, "%s\t%d\t%.0f s\t%.1f s\t%d\t%.2f\t%.1f\t%.0f MB\n", side, pods, m.running, m.claim, m.nodes, m.usd, m.cpu, m.memory)
	}
	if err := table.Flush(); err != nil {
		b.Fatal(err)
	}
	b.Logf("medians of %d rounds:\n%s", rounds, out.String())
}

// measure starts one side and has it launch nodes for the pods.
func measure(b *testing.B, autoscaler string) figures {
	b.Helper()
	c := start(b, autoscaler)
	c.pool()
	c.awaitPool()
	before := c.cpu(b)
	begun := time.Now()
	c.deployment(int32(c.pods))
	c.await("all pods to run", func() bool { return c.running() == c.pods })
	out := figures{nodes: len(c.claims()), usd: c.bill(), cpu: c.cpu(b) - before, memory: c.memory(b)}
	for _, p := range c.recorder.Pods() {
		if p.Object.Labels["app"] == "web" {
			out.running = max(out.running, p.Running.At.Sub(begun).Seconds())
		}
	}
	first := slices.MinFunc(c.recorder.Claims(), func(a, b observe.Claim) int { return a.Created.At.Compare(b.Created.At) })
	out.claim = first.Created.At.Sub(begun).Seconds()
	b.Logf("%+v", out)
	return out
}

// median is that of each figure by itself; of two in the middle it is the larger.
func median(of []figures) figures {
	middle := func(get func(figures) float64) float64 {
		var all []float64
		for _, f := range of {
			all = append(all, get(f))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return figures{
		claim: middle(func(f figures) float64 { return f.claim }), running: middle(func(f figures) float64 { return f.running }),
		nodes: int(middle(func(f figures) float64 { return float64(f.nodes) })), usd: middle(func(f figures) float64 { return f.usd }),
		cpu: middle(func(f figures) float64 { return f.cpu }), memory: middle(func(f figures) float64 { return f.memory }),
	}
}

// cpu is what both processes have spent so far, in seconds.
func (c *cluster) cpu(b *testing.B) float64 {
	b.Helper()
	sum := 0.0
	for _, name := range c.processes {
		text := c.proc(b, name, "stat")
		// The name in parentheses may hold blanks; utime and stime are the 14th and 15th field of proc_pid_stat(5).
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		for _, field := range fields[11:13] {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += n / ticks
		}
	}
	return sum
}

// memory is the sum of the largest resident sizes of both processes, in MB.
func (c *cluster) memory(b *testing.B) float64 {
	b.Helper()
	sum := 0.0
	for _, name := range c.processes {
		for line := range strings.Lines(c.proc(b, name, "status")) {
			var kib float64
			if n, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil && n == 1 {
				sum += kib * 1024 / 1e6
			}
		}
	}
	return sum
}

// proc reads what Linux says of a process.
func (c *cluster) proc(b *testing.B, name, file string) string {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.pid(name), file))
	if err != nil {
		b.Skipf("CPU time and memory are read from Linux's /proc: %v", err)
	}
	return string(bytes.TrimSpace(text))
}

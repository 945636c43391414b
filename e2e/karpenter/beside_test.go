package karpenter_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/karpenter/beside"
)

// side is one of the two that are compared.
type side struct {
	// name is what the tables call it.
	name string
	// autoscaler is what start takes.
	autoscaler string
}

// sides are Karpenter, as its own guide installs it, and slipway with its defaults.
func sides() []side {
	return []side{{"Karpenter + kube-scheduler", karpenter}, {"slipway", "slipway"}}
}

// sideNames are the names of the sides, in the order of the tables.
func sideNames() (out []string) {
	for _, s := range sides() {
		out = append(out, s.name)
	}
	return out
}

// BenchmarkBeside measures Karpenter with a stock kube-scheduler and slipway one after the other in each phase, each alone on a sandbox of its
// own, with the same NodePool and the same pods. The order turns with each round. The tables are written after each round.
func BenchmarkBeside(b *testing.B) {
	var runs []beside.Run
	order := sides()
	rounds := int(number(b, "rounds"))
	for n := range rounds {
		for _, p := range phases() {
			if !picked(b, p.name) {
				continue
			}
			for _, s := range order {
				run := beside.Run{Phase: p.name, Side: s.name}
				b.Run(p.name+"/"+s.name, func(b *testing.B) { run.Figures = p.measure(b, s) })
				runs = append(runs, run)
				fmt.Fprintf(os.Stderr, "%+v\n%s\n", run, load())
			}
		}
		slices.Reverse(order)
		fmt.Fprintf(os.Stderr, "after round %d of %d:\n%s\n", n+1, rounds, beside.Tables(runs, sideNames()))
	}
	b.Logf("medians:\n%s", beside.Tables(runs, sideNames()))
}

// load is what the machine does besides: figures of a machine that is busy are those of that machine.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return "load of the machine: " + strings.TrimSpace(string(text))
}

// Every phase runs with few pods and fast machines, on both sides, and what holds on any machine holds.
func TestBeside(t *testing.T) {
	for _, p := range phases() {
		if !picked(t, p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			var runs []beside.Run
			for _, s := range sides() {
				t.Run(s.name, func(t *testing.T) {
					runs = append(runs, beside.Run{Phase: p.name, Side: s.name, Figures: p.measure(t, s)})
				})
			}
			t.Logf("%s\n%s", beside.Tables(runs, sideNames()), load())
			if len(runs) == len(sides()) && p.judge != nil {
				p.judge(t, runs[0], runs[1])
			}
		})
	}
}

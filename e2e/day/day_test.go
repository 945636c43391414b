package day_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/day"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// The arguments of `make day` are flags.
func TestMain(m *testing.M) {
	flag.Uint64("day.seed", 1, "seed of the day that BenchmarkDay replays")
	flag.Int("day.from", 0, "minute of the day at which it begins")
	flag.Int("day.minutes", 0, "how many minutes of it; 0 for the rest of the day")
	flag.String("day.rules", "off,greedy,on,alone,keen", "rules that BenchmarkDay replays the day for")
	m.Run()
}

// argument is the value of a flag of TestMain's.
func argument[T any](name string) T {
	getter, ok := flag.Lookup(name).Value.(flag.Getter)
	if !ok {
		panic("flag " + name + " tells no value")
	}
	value, ok := getter.Get().(T)
	if !ok {
		panic(fmt.Sprintf("flag %s is a %T", name, getter.Get()))
	}
	return value
}

// sameAsAWS holds what slipway's record says that a day cost against AWS's meter.
func sameAsAWS(tb testing.TB, what string, b day.Bill) {
	tb.Helper()
	if off := b.Recorded/b.Metered - 1; !(math.Abs(off) <= 0.005) || b.Metered <= 0 {
		tb.Errorf("%s: slipway's bill is %.4f USD, AWS's %.4f: %.2f%% off", what, b.Recorded, b.Metered, 100*off)
	}
}

// replay replays a part of a day for all policies, and prints it.
func replay(tb testing.TB, cfg day.Config, policies ...day.Policy) (float64, map[day.Policy]day.Bill) {
	tb.Helper()
	lower, err := day.Bound(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	var bills []day.Bill
	out := map[day.Policy]day.Bill{}
	for _, p := range policies {
		bill, err := day.Replay(tb.Context(), cfg, p)
		if err != nil {
			tb.Fatal(err)
		}
		bills = append(bills, bill)
		out[p] = bill
		sameAsAWS(tb, string(p), bill)
	}
	var text bytes.Buffer
	on := out[day.On]
	if err := errors.Join(day.Write(&text, lower.USD, bills), day.WriteWhere(&text, lower, &on)); err != nil {
		tb.Fatal(err)
	}
	tb.Logf("\n%s", text.String())
	return lower.USD, out
}

// An hour and a half of the evening, when Deployments shrink after a calm time: consolidation pays at once, with more evictions where these do not cost more
// the more there were; and no policy pays less than the bound.
func TestPartOfADay(t *testing.T) {
	lower, bills := replay(t, day.Config{Seed: 1, From: 20 * 60, Minutes: 90}, day.Off, day.Greedy, day.On, day.Alone, day.Keen)
	on, off, alone := bills[day.On], bills[day.Off], bills[day.Alone]
	for _, b := range bills {
		if off := b.Dollars/b.Metered - 1; math.Abs(off) > 0.01 {
			t.Errorf("%s: by the minute it paid %.4f USD, by AWS's meter %.4f", b.Policy, b.Dollars, b.Metered)
		}
		if b.Dollars < 0.99*lower {
			t.Errorf("%s paid %.3f USD, the lower bound is %.3f", b.Policy, b.Dollars, lower)
		}
		if b.Pods != on.Pods || b.Launched == 0 || b.Pods == 0 {
			t.Errorf("%s had another day: %+v", b.Policy, b)
		}
	}
	if on.Dollars > 0.98*off.Dollars {
		t.Errorf("consolidation paid %.3f USD with %d evictions, %.3f without it", on.Dollars, on.Evictions, off.Dollars)
	}
	if keen := bills[day.Keen]; keen.Evictions <= alone.Evictions || keen.Dollars >= off.Dollars {
		t.Errorf("with evictions that cost as much however many there were, %d pods were evicted for a bill of %.3f USD, %d for %.3f with those that cost the more the more there were",
			keen.Evictions, keen.Dollars, alone.Evictions, alone.Dollars)
	}
	if off.Evictions != 0 {
		t.Errorf("%d pods were evicted without consolidation", off.Evictions)
	}
	if on.Pending > off.Pending*1.2+600 {
		t.Errorf("pods waited %.0f s with consolidation, %.0f s without", on.Pending, off.Pending)
	}
}

// BenchmarkDay replays a whole day: `make day`.
func BenchmarkDay(b *testing.B) {
	cfg := day.Config{Seed: argument[uint64]("day.seed"), From: argument[int]("day.from"), Minutes: argument[int]("day.minutes")}
	var policies []day.Policy
	for name := range strings.SplitSeq(argument[string]("day.rules"), ",") {
		policies = append(policies, day.Policy(name))
	}
	for b.Loop() {
		lower, bills := replay(b, cfg, policies...)
		b.ReportMetric(lower, "USD-bound")
		for p, bill := range bills {
			b.ReportMetric(bill.Dollars, "USD-"+string(p))
		}
	}
}

// committed replays a part of a day with the commitments, and returns the bill and that of a linear program that knows them and packs all pods from
// scratch.
func committed(tb testing.TB, cfg day.Config, list []commitment.Commitment) (day.Bill, float64) {
	tb.Helper()
	cfg.Commitments = list
	lower, err := day.Bound(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	bill, err := day.Replay(tb.Context(), cfg, day.On)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Logf("%.2f USD are committed, %.4f of it is used; %d evictions", bill.Committed, bill.Used/bill.Committed, bill.Evictions)
	tb.Logf("%.3f USD is %.4f of the %.3f for the same nodes with the best offerings, and %.4f of the %.3f for all pods packed from scratch",
		bill.Metered, bill.Metered/bill.SameNodes, bill.SameNodes, bill.Metered/lower.USD, lower.USD)
	return bill, lower.USD
}

// usesWell holds the use of the commitments and the choice of offerings to their goals.
func usesWell(tb testing.TB, bill day.Bill, least float64) {
	tb.Helper()
	if bill.Used < least*bill.Committed {
		tb.Errorf("%.4f of the commitments is used", bill.Used/bill.Committed)
	}
	if ratio := bill.Metered / bill.SameNodes; ratio > 1.02 || ratio < 1 {
		tb.Errorf("the bill is %.4f of what the same nodes cost with the best offerings", ratio)
	}
}

// What is committed is used, and no other offerings for the same nodes would have been cheaper, in an hour of the evening when Deployments shrink. The
// bill is near that of the linear program that packs all pods from scratch as well: that program follows the pods for nothing, and no move pays so soon.
func TestPartOfADayWithCommitments(t *testing.T) {
	cfg := day.Config{Seed: 1, From: 20 * 60, Minutes: 45}
	list, err := day.Commit(t.Context(), cfg, 0.6, 0.28)
	if err != nil {
		t.Fatal(err)
	}
	bill, lower := committed(t, cfg, list)
	sameAsAWS(t, "with commitments", bill)
	usesWell(t, bill, 0.98)
	if ratio := bill.Metered / lower; ratio > 1.12 || ratio < 0.98 {
		t.Errorf("the bill is %.4f of the linear program's", ratio)
	}
}

// Commitments for two families that are not the cheapest on demand are used as well. A slipway that does not know them misses both goals: these measure
// what they are for.
func TestPartOfADayWithCommittedFamilies(t *testing.T) {
	cfg := day.Config{Seed: 1, From: 20 * 60, Minutes: 45}
	list, err := day.CommitFamilies(t.Context(), cfg, 0.6, 0.28)
	if err != nil {
		t.Fatal(err)
	}
	bill, _ := committed(t, cfg, list)
	usesWell(t, bill, 0.97) // What is left of the family's plan pays for no whole node, and nodes boot for a while of so short a time.
	cfg.Unknown = true
	blind, _ := committed(t, cfg, list)
	if ratio := blind.Metered / blind.SameNodes; ratio <= 1.02 || blind.Used >= 0.97*blind.Committed || blind.Metered <= bill.Metered {
		t.Errorf("without knowing the commitments the bill is %.4f of what the same nodes cost with the best offerings, and %.4f of them is used: the goals measure nothing",
			ratio, blind.Used/blind.Committed)
	}
}

// BenchmarkCommittedDay replays a whole day with a Savings Plan, and one with commitments for families: `make day`.
func BenchmarkCommittedDay(b *testing.B) {
	cfg := day.Config{Seed: argument[uint64]("day.seed"), From: argument[int]("day.from"), Minutes: argument[int]("day.minutes")}
	for b.Loop() {
		for _, name := range []string{"plan", "families"} {
			commit := day.Commit
			if name == "families" {
				commit = day.CommitFamilies
			}
			list, err := commit(b.Context(), cfg, 0.6, 0.28)
			if err != nil {
				b.Fatal(err)
			}
			b.Log(name)
			bill, lower := committed(b, cfg, list)
			sameAsAWS(b, "with commitments", bill)
			usesWell(b, bill, 0.98)
			blind := cfg
			blind.Commitments, blind.Unknown = list, true
			unknown, err := day.Replay(b.Context(), blind, day.On)
			if err != nil {
				b.Fatal(err)
			}
			b.Logf("if slipway does not know the commitments the bill is %.3f USD, %.4f of the same nodes' best, and %.4f is used",
				unknown.Metered, unknown.Metered/unknown.SameNodes, unknown.Used/unknown.Committed)
			b.ReportMetric(bill.Metered/bill.SameNodes, name+"-of-same-nodes")
			b.ReportMetric(bill.Metered/lower, name+"-of-repacked")
			b.ReportMetric(bill.Used/bill.Committed, name+"-used")
		}
	}
}

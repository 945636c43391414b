package day_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/day"
)

// The arguments of `make day` are flags.
func TestMain(m *testing.M) {
	flag.Uint64("day.seed", 1, "seed of the day that BenchmarkDay replays")
	flag.Int("day.from", 0, "minute of the day at which it begins")
	flag.Int("day.minutes", 0, "how many minutes of it; 0 for the rest of the day")
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
func replay(tb testing.TB, cfg day.Config) (float64, map[day.Policy]day.Bill) {
	tb.Helper()
	lower, err := day.Bound(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	var bills []day.Bill
	out := map[day.Policy]day.Bill{}
	for _, p := range []day.Policy{day.Off, day.Greedy, day.On, day.Keen} {
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

// An hour of the evening, when Deployments shrink after a calm time: consolidation pays at once, with no fewer evictions where these do not cost more
// the more there were; and no policy pays less than the bound.
func TestPartOfADay(t *testing.T) {
	lower, bills := replay(t, day.Config{Seed: 1, From: 20 * 60, Minutes: 45})
	on, off := bills[day.On], bills[day.Off]
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
	if keen := bills[day.Keen]; keen.Evictions < on.Evictions || keen.Dollars >= off.Dollars {
		t.Errorf("with evictions that cost as much however many there were, %d pods were evicted for a bill of %.3f USD, %d for %.3f with the default", keen.Evictions, keen.Dollars, on.Evictions, on.Dollars)
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
	for b.Loop() {
		lower, bills := replay(b, cfg)
		b.ReportMetric(lower, "USD-bound")
		for p, bill := range bills {
			b.ReportMetric(bill.Dollars, "USD-"+string(p))
		}
	}
}

// committed replays a part of a day with a Savings Plan that pays for 60% of the least that its pods cost on demand, and returns the bill and that of
// a linear program that knows the plan.
func committed(tb testing.TB, cfg day.Config) (day.Bill, float64) {
	tb.Helper()
	var err error
	if cfg.Commitments, err = day.Commit(tb.Context(), cfg, 0.6, 0.28); err != nil {
		tb.Fatal(err)
	}
	lower, err := day.Bound(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	bill, err := day.Replay(tb.Context(), cfg, day.On)
	if err != nil {
		tb.Fatal(err)
	}
	sameAsAWS(tb, "with commitments", bill)
	list := cfg.Commitments
	cfg.Commitments = nil
	without, err := day.Bound(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	plain, err := day.Replay(tb.Context(), cfg, day.On)
	if err != nil {
		tb.Fatal(err)
	}
	covered := plain.Covered(list)
	tb.Logf("%.2f USD/h are committed, %.4f of it is used; %d evictions", list[0].Amount(), bill.Used/bill.Committed, bill.Evictions)
	tb.Logf("%.3f USD is %.4f of the linear program's %.3f; without commitments %.3f USD is %.4f of the lower bound", bill.Metered, bill.Metered/lower.USD, lower.USD, plain.Metered, plain.Metered/without.USD)
	tb.Logf("the nodes of the day without commitments would cost %.3f USD with them: the bill is %.4f of that", covered, bill.Metered/covered)
	return bill, lower.USD
}

// What is committed is used, and the bill is near that of the linear program, in an hour of the evening when Deployments shrink: the program follows them for
// nothing, and no move pays so soon.
func TestPartOfADayWithCommitments(t *testing.T) {
	bill, lower := committed(t, day.Config{Seed: 1, From: 20 * 60, Minutes: 45})
	if bill.Used < 0.98*bill.Committed {
		t.Errorf("%.4f of the commitments is used", bill.Used/bill.Committed)
	}
	if ratio := bill.Metered / lower; ratio > 1.12 || ratio < 0.98 {
		t.Errorf("the bill is %.4f of the linear program's", ratio)
	}
}

// BenchmarkCommittedDay replays a whole day with a Savings Plan: `make day`.
func BenchmarkCommittedDay(b *testing.B) {
	cfg := day.Config{Seed: argument[uint64]("day.seed"), From: argument[int]("day.from"), Minutes: argument[int]("day.minutes")}
	for b.Loop() {
		bill, lower := committed(b, cfg)
		b.ReportMetric(bill.Metered/lower, "of-the-LP")
		b.ReportMetric(bill.Used/bill.Committed, "used")
	}
}

package parity_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMain(m *testing.M) {
	flag.Uint64("seed", 0, "run the case of this seed alone; with -duration, the first seed")
	flag.Uint64("cases", cases, "how many cases TestParity runs")
	flag.Duration("duration", 0, "run cases for so long instead")
	flag.Uint64("procs", 0, "in so many goroutines; 0 for one per processor")
	flag.Bool("all", false, "go on after a failure")
	flag.Bool("hostile", false, "run the cases with hostile pods alone")
	os.Exit(m.Run())
}

func number(name string) uint64 {
	n, err := strconv.ParseUint(flag.Lookup(name).Value.String(), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func on(name string) bool { return flag.Lookup(name).Value.String() == "true" }

// failure is a property that a case does not keep.
type failure struct {
	property string
	what     []string
}

// try plans the case and returns the first property that does not hold.
func (l *lab) try(ctx context.Context, c *cluster) (found *failure) {
	defer func() {
		if cause := recover(); cause != nil {
			found = &failure{"no panic in " + panicked(), []string{fmt.Sprint(cause)}}
		}
	}()
	l.load(c)
	o, err := l.measured(ctx, c)
	if err != nil {
		return &failure{"no error", []string{err.Error()}}
	}
	for _, p := range properties() {
		if what := p.check(ctx, l, o); len(what) > 0 {
			return &failure{p.name, what}
		}
	}
	return nil
}

// panicked is the function of the project that a panic came out of: a case is shrunk to the smallest one with the same panic.
func panicked() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for raised := false; ; {
		f, more := frames.Next()
		if raised && strings.Contains(f.Function, "slipway/plugin/") {
			return f.Function[strings.LastIndex(f.Function, "/")+1:]
		}
		if raised = raised || f.Function == "runtime.gopanic"; !more {
			return "the test"
		}
	}
}

// TestParity plans random clusters and holds the plans against the scheduler's own filters: a fixed set of cases, or new
// ones for as long as -duration says.
func TestParity(t *testing.T) {
	seed, duration := number("seed"), flag.Lookup("duration").Value.String()
	if seed != 0 && duration == "0s" {
		alone := newCrowd(1)
		alone.join()
		bubble(t, func(ctx context.Context, l *lab) {
			l.alone = alone
			l.run(ctx, t, seed)
		})
		t.Log(alone)
		return
	}
	length, err := time.ParseDuration(duration)
	if err != nil {
		t.Fatal(err)
	}
	procs := number("procs")
	if procs == 0 {
		procs = uint64(runtime.GOMAXPROCS(0))
	}
	end := time.Now().Add(length)
	first, step := max(seed, 1), uint64(1)
	if on("hostile") {
		step = hostileEvery
		first = (first + step - 1) / step * step
	}
	alone := newCrowd(procs)
	t.Cleanup(func() { t.Log(alone) }) // once the workers are done
	for worker := range procs {
		t.Run(fmt.Sprintf("worker %d", worker), func(t *testing.T) {
			t.Parallel()
			alone.join()
			defer alone.leave()
			for from := first + worker*share*step; ; from += procs * share * step {
				if length > 0 && time.Now().After(end) || length == 0 && from >= first+number("cases")*step {
					return
				}
				if !shareOf(t, alone, from, step) {
					return
				}
				if length > 0 && worker == 0 {
					t.Logf("about %d cases, %s left", (from-first)/step+procs*share, time.Until(end).Round(time.Second))
				}
			}
		})
	}
}

// share is how many cases one lab tries: what informers remember of old cases grows.
const share = 100

// shareOf tries the cases from the seed on, and says whether to go on.
func shareOf(t *testing.T, alone *crowd, from, step uint64) bool {
	t.Helper()
	bubble(t, func(ctx context.Context, l *lab) {
		l.alone = alone
		for seed := from; seed < from+share*step && (on("all") || !t.Failed()); seed += step {
			l.run(ctx, t, seed)
		}
	})
	return on("all") || !t.Failed()
}

// bubble runs f with a lab of its own.
func bubble(t *testing.T, f func(context.Context, *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newLab(ctx, t)
		f(ctx, l)
		cancel()
		l.close()
		time.Sleep(time.Minute) // in the bubble's time: the frameworks' recorders end within a second
	})
}

// run tries the case of the seed; if it fails, the smallest case that fails in the same way is written down.
func (l *lab) run(ctx context.Context, t *testing.T, seed uint64) {
	t.Helper()
	c := generate(seed)
	first := l.try(ctx, c)
	if first == nil {
		return
	}
	t.Logf("seed %d: %s does not hold; looking for a smaller case", seed, first.property)
	small := shrink(c, func(c *cluster) bool {
		f := l.try(ctx, c)
		return f != nil && f.property == first.property
	})
	last := l.try(ctx, small)
	file := filepath.Join(os.TempDir(), fmt.Sprintf("parity-%d.txtar", seed))
	comment := fmt.Sprintf("seed %d: %s does not hold", seed, last.property)
	if err := os.WriteFile(file, small.archive(comment, last.what), 0o600); err != nil {
		t.Error(err)
	}
	t.Errorf("%s; the smallest such case that was found is in %s:\n%.2000q", comment, file, last.what)
}

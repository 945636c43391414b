package parity_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/internal/cputime"
)

// crowd are the goroutines that try cases. What a case takes of the process is measured while the others rest.
type crowd struct {
	// seats are as many as there are goroutines, each of which has one while it runs. The one whose turn it is takes all.
	seats, turn chan struct{}
	// cases were measured, of which most had the greatest cost and was of the seed.
	cases         int
	most          cost
	cpuOf, peakOf uint64
}

func newCrowd(n uint64) *crowd {
	return &crowd{seats: make(chan struct{}, n), turn: make(chan struct{}, 1)}
}

// join makes the caller one of the crowd, until it leaves.
func (c *crowd) join() { c.seats <- struct{}{} }

func (c *crowd) leave() { <-c.seats }

// alone runs f for one of the crowd once no other runs; a nil crowd has no others.
func (c *crowd) alone(f func()) {
	if c == nil {
		f()
		return
	}
	c.leave()
	c.turn <- struct{}{}
	for range cap(c.seats) {
		c.join()
	}
	defer func() {
		for range cap(c.seats) - 1 {
			c.leave()
		}
		<-c.turn
	}()
	f()
}

// note counts the cost of the case of the seed.
func (c *crowd) note(seed uint64, of cost) {
	c.cases++
	if of.cpu > c.most.cpu {
		c.most.cpu, c.cpuOf = of.cpu, seed
	}
	if of.memory > c.most.memory {
		c.most.memory, c.peakOf = of.memory, seed
	}
}

func (c *crowd) String() string {
	return fmt.Sprintf("%d cases with hostile pods: at most %v of CPU (seed %d), and %d MiB (seed %d)", c.cases, c.most.cpu, c.cpuOf, c.most.memory>>20, c.peakOf)
}

// cost is what a plan with its filters took of the process.
type cost struct {
	cpu time.Duration
	// memory is how many bytes more than before were resident at a time.
	memory int64
}

const (
	// mostCPU is what one plan of a case with hostile pods may take, with its filters. Of 948 cases the dearest took 3.1 s alone, 4.6 s on a
	// machine with other work. What was found took 26 s.
	mostCPU = dearer * 8 * time.Second
	// mostMemory is how much a plan of such a case may add to what is resident: the most was 55 MiB. What was found took 470 MiB.
	mostMemory = dearer * 256 << 20
	// attempts is how often a case that is over a bound is measured: the least of them counts, since the machine has other work.
	attempts = 3
)

// measured is solve; it also measures what a case with hostile pods takes.
func (l *lab) measured(ctx context.Context, c *cluster) (o *outcome, err error) {
	if !c.hostile() {
		return l.solve(ctx, c)
	}
	l.alone.alone(func() {
		var least cost // of as many attempts as it takes to be within the bounds
		for i := range attempts {
			before, resident := cputime.Used(), resetPeak()
			if o, err = l.solve(ctx, c); err != nil {
				return
			}
			now := cost{cputime.Used() - before, peakResident() - resident}
			if i == 0 {
				least = now
			}
			least = cost{min(least.cpu, now.cpu), min(least.memory, now.memory)}
			if o.cost = least; least.cpu <= mostCPU && least.memory <= mostMemory {
				break
			}
		}
		if l.alone != nil {
			l.alone.note(c.seed, least)
		}
	})
	return o, err
}

// resetPeak gives back what memory it can, starts the count of peakResident anew (proc_pid_clear_refs(5)) and returns it.
func resetPeak() int64 {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	return peakResident()
}

// peakResident is the most memory that this process had at a time since resetPeak, in bytes; 0 on systems that do not count it.
func peakResident() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	_, after, found := strings.Cut(string(status), "VmHWM:")
	if !found {
		panic(fmt.Sprintf("no VmHWM in /proc/self/status: %v", err))
	}
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		panic(err)
	}
	return kib << 10
}

func cpuBounded(_ context.Context, _ *lab, o *outcome) []string {
	if o.cost.cpu > mostCPU {
		return []string{fmt.Sprintf("%v of CPU, at most %v is bearable", o.cost.cpu, mostCPU)}
	}
	return nil
}

func memoryBounded(_ context.Context, _ *lab, o *outcome) []string {
	if o.cost.memory > mostMemory {
		return []string{fmt.Sprintf("%d MiB more are resident, at most %d are bearable", o.cost.memory>>20, mostMemory>>20)}
	}
	return nil
}

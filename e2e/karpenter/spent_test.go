package karpenter_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/proc"
)

// cpu is what both processes have spent so far, in seconds.
func (c *cluster) cpu(tb testing.TB) float64 {
	tb.Helper()
	return c.sum(tb, func(u proc.Usage) float64 { return u.CPU })
}

// memory is the sum of the largest resident sizes of both processes, in MB.
func (c *cluster) memory(tb testing.TB) float64 {
	tb.Helper()
	return c.sum(tb, func(u proc.Usage) float64 { return u.Memory * 1024 / 1e6 })
}

// sum adds up a figure of both processes.
func (c *cluster) sum(tb testing.TB, figure func(proc.Usage) float64) float64 {
	tb.Helper()
	sum := 0.0
	for _, name := range c.processes {
		used, err := proc.Of(c.pid(name))
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			tb.Skipf("CPU time and memory are read from Linux's /proc: %v", err)
		}
		if err != nil {
			tb.Fatal(err)
		}
		sum += figure(used)
	}
	return sum
}

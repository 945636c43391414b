package karpenter_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// ticks is how many clock ticks of /proc a second has: USER_HZ.
const ticks = 100

// cpu is what both processes have spent so far, in seconds.
func (c *cluster) cpu(tb testing.TB) float64 {
	tb.Helper()
	sum := 0.0
	for _, name := range c.processes {
		text := c.proc(tb, name, "stat")
		// The name in parentheses may hold blanks; utime and stime are the 14th and 15th field of proc_pid_stat(5).
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		for _, field := range fields[11:13] {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				tb.Fatal(err)
			}
			sum += n / ticks
		}
	}
	return sum
}

// memory is the sum of the largest resident sizes of both processes, in MB.
func (c *cluster) memory(tb testing.TB) float64 {
	tb.Helper()
	sum := 0.0
	for _, name := range c.processes {
		for line := range strings.Lines(c.proc(tb, name, "status")) {
			var kib float64
			if n, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil && n == 1 {
				sum += kib * 1024 / 1e6
			}
		}
	}
	return sum
}

// proc reads what Linux says of a process.
func (c *cluster) proc(tb testing.TB, name, file string) string {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.pid(name), file))
	if err != nil {
		tb.Skipf("CPU time and memory are read from Linux's /proc: %v", err)
	}
	return string(bytes.TrimSpace(text))
}

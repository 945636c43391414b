// Package cputime measures CPU time for tests and benchmarks: on a busy machine the wall clock says little.
package cputime

import (
	"fmt"
	"syscall"
	"time"
)

// Used returns the user and system time that this process has used until now. It panics where getrusage(2) fails, which it does for a
// wrong argument alone.
func Used() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(fmt.Sprintf("reading the CPU time: %v", err))
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Package proc reads from Linux what a process has used. The suites and benchmarks measure with it.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticks is how many clock ticks of /proc a second has: USER_HZ.
const ticks = 100

// Usage is what a process has used so far.
type Usage struct {
	// CPU is its time, user and system, in seconds.
	CPU float64
	// Memory is its largest resident size, and Files what of the present one is pages of files: the program. In KiB.
	Memory, Files float64
}

// Of returns what a process has used. An error that is a *fs.PathError means that it does not run, or that there is
// no /proc.
func Of(pid int) (Usage, error) {
	var out Usage
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return out, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return out, err
	}
	// The name in parentheses may hold blanks; utime and stime are the 14th and 15th field of proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return out, fmt.Errorf("/proc/%d/stat has %d fields behind the name", pid, len(fields))
	}
	for _, field := range fields[11:13] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return out, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		out.CPU += n / ticks
	}
	for line := range strings.Lines(string(status)) {
		for format, into := range map[string]*float64{"VmHWM: %f kB": &out.Memory, "RssFile: %f kB": &out.Files} {
			var kib float64
			if n, err := fmt.Sscanf(line, format, &kib); err == nil && n == 1 {
				*into = kib
			}
		}
	}
	return out, nil
}

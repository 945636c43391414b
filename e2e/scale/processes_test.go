package scale_test

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

// meter adds up what a process and those that were started in its place have used. It has to be asked while each of them runs.
type meter struct {
	// pid is the current process, and cpu what it has used, in seconds.
	pid int
	cpu float64
	// before is what the processes before it have used.
	before float64
	// memory is the largest resident size of all of them, in MiB, and files the largest part of it that is pages of files: the program.
	memory, files float64
}

// sample looks at the process; one that is not running is left out.
func (m *meter) sample(tb testing.TB, pid int) {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return
	}
	if pid != m.pid {
		m.before, m.cpu, m.pid = m.before+m.cpu, 0, pid
	}
	// The name in parentheses may hold blanks; utime and stime are the 14th and 15th field of proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	m.cpu = 0
	for _, field := range fields[11:13] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			tb.Fatal(err)
		}
		m.cpu += n / ticks
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil && n == 1 {
			m.memory = max(m.memory, kib/1024)
		}
		if n, err := fmt.Sscanf(line, "RssFile: %f kB", &kib); err == nil && n == 1 {
			m.files = max(m.files, kib/1024)
		}
	}
}

// spent is the CPU time of all of them, in seconds.
func (m *meter) spent() float64 { return m.before + m.cpu }

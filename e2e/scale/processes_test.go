package scale_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/proc"
)

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
	used, err := proc.Of(pid)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return
	}
	if err != nil {
		tb.Fatal(err)
	}
	if pid != m.pid {
		m.before, m.pid = m.before+m.cpu, pid
	}
	m.cpu = used.CPU
	m.memory, m.files = max(m.memory, used.Memory/1024), max(m.files, used.Files/1024)
}

// spent is the CPU time of all of them, in seconds.
func (m *meter) spent() float64 { return m.before + m.cpu }

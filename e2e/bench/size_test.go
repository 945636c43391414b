package bench_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// What `slipway-sandbox up` needs: seconds until it is ready, and memory then.
func BenchmarkSandbox(b *testing.B) {
	for b.Loop() {
		b.Log(machine())
		ctx, cancel := context.WithTimeout(b.Context(), testbed.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(testbed.BinDir("../.."), "slipway-sandbox"), "--sandbox", "bench", "up")
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "Ready after") {
			b.Log(lines.Text())
		}
		b.ReportMetric(time.Since(begin).Seconds(), "start-s")
		b.Logf("ready %.1f s after the command", time.Since(begin).Seconds())
		// Whatever it starts with is done after a moment.
		time.Sleep(5 * time.Second)
		for _, pid := range append([]int{cmd.Process.Pid}, children(b, cmd.Process.Pid)...) {
			b.Logf("%s: %s", processName(b, pid), memory(b, pid))
		}
		cancel()
		for lines.Scan() {
			continue // It would block on a pipe that nobody reads.
		}
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	}
}

// memory of a process, as Linux tells.
func memory(b *testing.B, pid int) string {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skipf("the memory of a process is read from Linux's /proc: %v", err)
	}
	fields := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "Vm") {
			if fields[name], err = strconv.Atoi(strings.Fields(value)[0]); err != nil {
				b.Fatal(err)
			}
		}
	}
	return fmt.Sprintf("%d MiB resident, %d MiB at most", fields["VmRSS"]/1024, fields["VmHWM"]/1024)
}

func processName(b *testing.B, pid int) string {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// children of a process, of all its threads.
func children(b *testing.B, pid int) []int {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		b.Fatal(err)
	}
	var out []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // The thread has ended.
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			out = append(out, child)
		}
	}
	return out
}

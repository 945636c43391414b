package supervise_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A supervisor that is killed takes its child along.
func TestChildDiesWithItsSupervisor(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{role + "=parent", "LOG=" + filepath.Join(t.TempDir(), "log")}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid string
	if _, err := fmt.Fscanln(out, &pid); err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It was killed: its state is no news.
	_ = cmd.Wait()
	for deadline := time.Now().Add(2 * time.Minute); alive(child) && !zombie(child); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is alive", child)
		}
	}
}

// zombie tells whether a process is dead and only waits to be reaped by whoever inherited it.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

package app

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
)

// fullDisk is the variable that has TestFullDiskOfTheScheduler run in a process whose files cannot grow, with its value as the folder.
const fullDisk = "SCHEDULER_TEST_FULL_DISK"

// A volume that takes no byte more, as a file size limit of zero makes it: the scheduler takes part in leader election under an identity of its
// own. Once there is space again, the next process leaves its identity there.
func TestFullDiskOfTheScheduler(t *testing.T) {
	if folder := os.Getenv(fullDisk); folder != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
			t.Fatal(err)
		}
		electedAs(t, filepath.Join(folder, "identity"), "full", "full")
		return
	}
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDiskOfTheScheduler$", "-test.v")
	cmd.Env = append(os.Environ(), fullDisk+"="+folder)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Leader election starts under a new identity") {
		t.Errorf("in a full volume: %v\n%s", err, out)
	}
	path := filepath.Join(folder, "identity")
	electedAs(t, path, "next", "next")
	if left, err := os.ReadFile(path); err != nil || string(left) != "next" {
		t.Errorf("the file has %q, %v", left, err)
	}
}

// electedAs checks under which identity a process takes part that would be own without the file.
func electedAs(t *testing.T, path, own, want string) {
	t.Helper()
	lock := &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: own}}
	cfg := schedulerconfig.Config{LeaderElection: &leaderelection.LeaderElectionConfig{Lock: lock}}
	cc := cfg.Complete()
	if renounce := inherit(&cc, path); renounce == nil {
		t.Fatal("nothing to call before the Lease is released")
	}
	if got := lock.LockConfig.Identity; got != want {
		t.Errorf("process %s takes part as %s, want %s", own, got, want)
	}
}

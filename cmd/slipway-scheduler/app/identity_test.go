package app

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
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

// The election is under the inherited identity, and waits for the launcher before it takes a Lease that is another's. Without leader election
// there is nothing to take.
func TestPreferLaunchers(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "l"}}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: lease.ObjectMeta, Client: fake.NewClientset(lease).CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
	}
	cfg := schedulerconfig.Config{LeaderElection: &leaderelection.LeaderElectionConfig{Lock: lock}}
	cc := cfg.Complete()
	waited := 0
	if err := preferLaunchers(&cc, func(context.Context) bool { waited++; return true }); err != nil {
		t.Fatal(err)
	}
	around := cc.LeaderElection.Lock
	_, _, err := around.Get(t.Context())
	for range 2 {
		err = errors.Join(err, around.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: around.Identity()}))
	}
	if err != nil || waited != 1 || around.Identity() != "me" {
		t.Errorf("%s waited %d times, want me once; error %v", around.Identity(), waited, err)
	}
	none := (&schedulerconfig.Config{}).Complete()
	if err := preferLaunchers(&none, nil); err != nil || none.LeaderElection != nil {
		t.Errorf("without leader election: %v, error %v", none.LeaderElection, err)
	}
}

package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
)

// role tells a copy of this test binary what to play.
const role = "SUPERVISE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		goleak.VerifyTestMain(m)
	case "exit":
		fmt.Println("run and gone")
		os.Exit(3)
	case "stay":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Println("staying")
		<-stop
		fmt.Println("told to end")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("staying")
		time.Sleep(time.Hour)
	case "parent":
		parent()
	}
}

// parent supervises a child and prints its PID, until somebody kills it.
func parent() {
	child, err := supervise.New(supervise.Config{
		Name: "child", Path: os.Args[0], Env: []string{role + "=stay"}, LogFile: os.Getenv("LOG"),
	})
	if err != nil {
		panic(err)
	}
	go func() { _ = child.Run(context.Background()) }()
	for child.PID() == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(child.PID())
	time.Sleep(time.Hour)
}

// running is a child under supervision in a test.
type running struct {
	*supervise.Child
	log   string
	exits chan supervise.Exit
	stop  func()
}

func run(t *testing.T, played string) running {
	t.Helper()
	r := running{log: filepath.Join(t.TempDir(), "log"), exits: make(chan supervise.Exit, 100)}
	// Who ends when it is told to has the time for it.
	grace := time.Minute
	if played == "stubborn" {
		grace = 200 * time.Millisecond
	}
	var err error
	r.Child, err = supervise.New(supervise.Config{
		Name: "child", Path: os.Args[0], Env: []string{role + "=" + played}, LogFile: r.log,
		Backoff: 200 * time.Millisecond, Grace: grace,
		Exited: func(e supervise.Exit) { r.exits <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// await waits until the log holds the text n times.
func (r running) await(t *testing.T, text string, n int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		data, err := os.ReadFile(r.log)
		if err == nil && strings.Count(string(data), text) >= n {
			return
		}
	}
	t.Fatalf("the log never said %q %d times", text, n)
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestRestartsWithBackoff(t *testing.T) {
	r := run(t, "exit")
	var waits []int64
	for range 4 {
		exit := <-r.exits
		if exit.State != "exit status 3" {
			t.Errorf("state %q", exit.State)
		}
		waits = append(waits, exit.RestartIn.Milliseconds())
	}
	if got := fmt.Sprint(waits); got != "[0 200 400 800]" {
		t.Errorf("waits in ms: %s", got)
	}
	if got := r.Crashes(); len(got) < 3 || got[0].State != "exit status 3" {
		t.Errorf("crashes: %+v", got)
	}
}

func TestKillAndRestart(t *testing.T) {
	r := run(t, "stay")
	r.await(t, "staying", 1)
	first := r.PID()
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if exit := <-r.exits; exit.State != "signal: killed" || exit.PID != first || exit.RestartIn != 0 || !exit.Killed {
		t.Errorf("exit %+v of %d", exit, first)
	}
	r.await(t, "staying", 2)
	second := r.PID()
	if second == first || r.Restarts() != 1 {
		t.Errorf("pid %d after %d, %d restarts", second, first, r.Restarts())
	}
	// A stranger's signal, such as the kernel's when memory is short, is a crash.
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-r.exits
	r.await(t, "staying", 3)
	if got := r.Crashes(); len(got) != 1 || got[0].PID != second || got[0].Killed {
		t.Errorf("crashes: %+v, want that of %d", got, second)
	}
}

func TestEndsPolitely(t *testing.T) {
	r := run(t, "stay")
	r.await(t, "staying", 1)
	pid := r.PID()
	r.stop()
	r.await(t, "told to end", 1)
	if alive(pid) || r.PID() != 0 {
		t.Errorf("process %d is alive", pid)
	}
	if err := r.Kill(); !errors.Is(err, supervise.ErrNotRunning) {
		t.Errorf("kill answers %v", err)
	}
}

func TestInsistsAfterTheGrace(t *testing.T) {
	r := run(t, "stubborn")
	r.await(t, "staying", 1)
	pid := r.PID()
	r.stop()
	if alive(pid) {
		t.Errorf("process %d is alive", pid)
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "slipway-launcher")
	_, err := supervise.New(supervise.Config{Name: "launcher", Path: missing, LogFile: "log"})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("error does not name the program: %v", err)
	}
}

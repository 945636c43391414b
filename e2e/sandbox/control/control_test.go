package control_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slipway-k8s/slipway/e2e/sandbox/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// temporary gives the test a temporary folder of its own.
func temporary(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	return folder
}

func acquire(t *testing.T, name string) *control.Claim {
	t.Helper()
	claim, err := control.Acquire(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Publish(control.State{Name: claim.Name, Folder: claim.Folder}); err != nil {
		t.Fatal(err)
	}
	return claim
}

func release(t *testing.T, claims ...*control.Claim) {
	t.Helper()
	for _, claim := range claims {
		if err := claim.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestNamesAndFolders(t *testing.T) {
	tmp := temporary(t)
	first, second, third := acquire(t, ""), acquire(t, ""), acquire(t, "mine")
	if first.Name != "sandbox" || second.Name != "sandbox-2" || third.Name != "mine" {
		t.Errorf("names %s, %s, %s", first.Name, second.Name, third.Name)
	}
	_, err := control.Acquire("mine")
	if inUse, ok := errors.AsType[*control.InUseError](err); !ok || inUse.Name != "mine" {
		t.Errorf("a name is given twice: %v", err)
	}
	if state, err := control.Find("mine"); err != nil || state.Folder != third.Folder {
		t.Errorf("found %+v, %v", state, err)
	}
	if _, err := control.Find("other"); err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("none of that name: %v", err)
	}
	release(t, first, second, third)
	nothingIn(t, tmp)
}

func TestFindWithoutAName(t *testing.T) {
	tmp := temporary(t)
	first, second := acquire(t, ""), acquire(t, "")
	if _, err := control.Find(""); err == nil || !strings.Contains(err.Error(), "sandbox, sandbox-2") {
		t.Errorf("several run: %v", err)
	}
	release(t, first)
	if state, err := control.Find(""); err != nil || state.Name != "sandbox-2" {
		t.Errorf("the only one is %+v, %v", state, err)
	}
	release(t, second)
	if _, err := control.Find(""); err == nil || !strings.Contains(err.Error(), "no sandbox runs") {
		t.Errorf("none runs: %v", err)
	}
	nothingIn(t, tmp)
}

func nothingIn(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNamesThatAreNone(t *testing.T) {
	temporary(t)
	for _, name := range []string{"-a", "a-", "A", "a/b", "..", strings.Repeat("a", 25)} {
		if claim, err := control.Acquire(name); err == nil {
			t.Errorf("%q is a name", name)
			release(t, claim)
		}
	}
}

// What a killed sandbox left is no running sandbox, and the next one of its name starts empty.
func TestLeftBehind(t *testing.T) {
	tmp := temporary(t)
	claim := acquire(t, "sandbox")
	folder, lock := claim.Folder, claim.Folder+".lock"
	release(t, claim)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(folder), 0o700); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(folder, "state.json")
	for _, path := range []string{old, lock} {
		if err := os.WriteFile(path, []byte(`{"name":"sandbox"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if state, err := control.Find(""); err == nil {
		t.Errorf("found a dead one: %+v", state)
	}
	next, err := control.Acquire("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); next.Name != "sandbox" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", next.Name, err)
	}
	release(t, next)
	nothingIn(t, tmp)
}

func TestFolderOfSomebodyElse(t *testing.T) {
	temporary(t)
	claim := acquire(t, "")
	root := filepath.Dir(claim.Folder)
	release(t, claim)
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Acquire(""); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("a folder open to all is taken: %v", err)
	}
}

// killer records what it was told to kill.
type killer struct{ killed chan string }

func (k killer) Kill(name string) error {
	if name != "launcher" {
		return errors.New("nothing is called " + name)
	}
	k.killed <- name
	return nil
}

func TestKill(t *testing.T) {
	temporary(t)
	claim := acquire(t, "")
	defer release(t, claim)
	ctx, cancel := context.WithCancel(t.Context())
	actions := killer{killed: make(chan string, 1)}
	served := make(chan error, 1)
	go func() { served <- control.Serve(ctx, claim.Folder, actions) }()
	state, err := control.Find("")
	if err != nil {
		t.Fatal(err)
	}
	client := control.NewClient(state)
	defer client.Close()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err = client.Kill(ctx, "launcher"); err == nil {
			break
		}
	}
	if err != nil || <-actions.killed != "launcher" {
		t.Fatalf("kill: %v", err)
	}
	if err := client.Kill(ctx, "etcd"); err == nil || err.Error() != "nothing is called etcd" {
		t.Errorf("the sandbox's answer is lost: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if err := client.Kill(t.Context(), "launcher"); err == nil {
		t.Error("a sandbox that is gone answers")
	}
}

package identity_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/identity"
)

// owner is the variable that has a copy of this test binary take an identity, with its value as own, and live until its input ends.
const owner = "IDENTITY_TEST_OWNER"

func TestMain(m *testing.M) {
	own := os.Getenv(owner)
	if own == "" {
		os.Exit(m.Run())
	}
	taken, err := identity.Take(os.Args[1], own)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(taken.Name())
	if line, err := bufio.NewReader(os.Stdin).ReadString('\n'); err == nil && line == "renounce\n" {
		if err := taken.Renounce(); err != nil {
			fmt.Println(err)
		}
	}
	os.Exit(0)
}

// process is a running copy of this test binary with its identity.
type process struct {
	name string
	end  func(last string)
}

func start(t *testing.T, path, own string) process {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = []string{owner + "=" + own}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var name string
	if _, err := fmt.Fscanln(out, &name); err != nil {
		t.Fatal(err)
	}
	return process{name: name, end: func(last string) {
		t.Helper()
		if last == "" {
			err = cmd.Process.Kill()
		} else {
			_, err = fmt.Fprintln(in, last)
		}
		if err != nil {
			t.Fatal(err)
		}
		// It was killed, or it ended by the command above: its state adds nothing.
		_ = cmd.Wait()
	}}
}

// The next process takes the identity of a killed process, and not that of a process that renounced it.
func TestIdentityIsHandedOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	first := start(t, path, "first")
	beside := start(t, path, "beside")
	if first.name != "first" || beside.name != "beside" {
		t.Errorf("two live processes have the identities %q and %q", first.name, beside.name)
	}
	beside.end("")
	first.end("")
	second := start(t, path, "second")
	if second.name != "first" {
		t.Errorf("after a kill: %q", second.name)
	}
	second.end("renounce")
	third := start(t, path, "third")
	if third.name != "third" {
		t.Errorf("after the end: %q", third.name)
	}
	third.end("")
}

// The first process of a Pod comes before the launcher has made the folder of its socket. It leaves its identity nevertheless, in a folder that
// the launcher accepts.
func TestFolderIsMade(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "run", "slipway")
	path := filepath.Join(folder, "identity")
	first := start(t, path, "first")
	first.end("")
	second := start(t, path, "second")
	second.end("")
	if second.name != "first" {
		t.Errorf("after a kill: %q", second.name)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has %v, error %v", info, err)
	}
}

func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Take(filepath.Join(file, "identity"), "me"); err == nil {
		t.Error("no error")
	}
}

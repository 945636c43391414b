package heir_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/heir"
)

// owner tells a copy of this test binary to take the identity under this name and to live until its input ends.
const owner = "HEIR_TEST_OWNER"

func TestMain(m *testing.M) {
	own := os.Getenv(owner)
	if own == "" {
		os.Exit(m.Run())
	}
	identity, err := heir.Take(os.Args[1], own)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(identity.Name())
	if line, err := bufio.NewReader(os.Stdin).ReadString('\n'); err == nil && line == "renounce\n" {
		if err := identity.Renounce(); err != nil {
			fmt.Println(err)
		}
	}
	os.Exit(0)
}

// process goes under an identity.
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
		// It was killed, or it ended as it was told: its state is no news.
		_ = cmd.Wait()
	}}
}

// What a killed process leaves is its successor's; what one that ended itself leaves is nobody's.
func TestIdentityIsHandedOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	first := start(t, path, "first")
	beside := start(t, path, "beside")
	if first.name != "first" || beside.name != "beside" {
		t.Errorf("two that live go under %q and %q", first.name, beside.name)
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

func TestNoFile(t *testing.T) {
	if _, err := heir.Take(filepath.Join(t.TempDir(), "nowhere", "identity"), "me"); err == nil {
		t.Error("no error")
	}
}

package commands_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// terminal is a pseudo-terminal with a command on it.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	keys *os.File
	rows uint16
	mu   sync.Mutex
	seen bytes.Buffer
	// all is what the command has written since its start.
	all bytes.Buffer
	// closed ends when the command has closed the terminal.
	closed chan struct{}
}

// terminal starts a command of bin/ on a pseudo-terminal of 80 columns and 24 rows.
func (w *world) terminal(t *testing.T, environment []string, args ...string) *terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTakes)
	t.Cleanup(cancel)
	out := &terminal{t: t, rows: 24, closed: make(chan struct{})}
	out.cmd = exec.CommandContext(ctx, filepath.Join(w.folder, "bin", "slipway"), args...)
	out.cmd.Dir, out.cmd.Env = w.folder, append(w.environment, environment...)
	var err error
	if out.keys, err = pty.StartWithSize(out.cmd, &pty.Winsize{Rows: out.rows, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(out.closed)
		_, _ = io.Copy(out, out.keys) // It ends with an error when the command ends.
	}()
	return out
}

// Write implements io.Writer for what the command writes.
func (r *terminal) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Write(p)
	r.all.Write(p)
	return len(p), nil
}

// see waits until the screen has all texts. A screen is written again as a whole, since the terminal changes its size.
func (r *terminal) see(texts ...string) {
	r.t.Helper()
	escapes := regexp.MustCompile(`\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|[()][A-Z0-9]|[=>78])`)
	deadline := time.Now().Add(commandTakes)
	for {
		r.mu.Lock()
		r.seen.Reset()
		r.mu.Unlock()
		r.rows = 24 + 25 - r.rows
		if err := pty.Setsize(r.keys, &pty.Winsize{Rows: r.rows, Cols: 80}); err != nil {
			r.t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		r.mu.Lock()
		screen := escapes.ReplaceAllString(r.seen.String(), "")
		r.mu.Unlock()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-r.closed:
			r.t.Fatalf("%v ended:\n%s", r.cmd.Args, screen)
		default:
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%v does not show %q, but\n%s", r.cmd.Args, missing, screen)
		}
	}
}

func (r *terminal) press(keys string) {
	r.t.Helper()
	if _, err := r.keys.WriteString(keys); err != nil {
		r.t.Fatal(err)
	}
}

// ends waits for the command, which has to end well, and returns all that it has written.
func (r *terminal) ends() string {
	r.t.Helper()
	err := r.cmd.Wait()
	<-r.closed
	if closing := r.keys.Close(); closing != nil {
		r.t.Error(closing)
	}
	if err != nil {
		r.t.Errorf("%v: %v\n%s", r.cmd.Args, err, &r.all)
	}
	return r.all.String()
}

// top looks at the cluster as a user does: the nodes, the pods of one of them, why one of these is there, the keys, and out again.
func (w *world) top(t *testing.T) {
	t.Helper()
	// The first pod has its place on the node that the sandbox has from the beginning.
	w.script(t, "a node to look at", "kubectl scale deployment inflate --replicas 4\nkubectl rollout status deployment inflate --timeout 4m")
	for _, args := range [][]string{{"top"}, {"status", "--watch"}} {
		r := w.terminal(t, []string{"TERM=xterm-256color", "NO_COLOR=1", "LANG=C.UTF-8"}, args...)
		r.see("NODE", "USD/H", "running", "default-", "ready", "q quit")
		r.press("?")
		r.see("Keys of slipway top")
		r.press("\x7f/default\r")
		r.see("Filter: default", "default-")
		r.press("\r")
		r.see("NodeClaim default-", "default/inflate-", "running")
		r.press("\r")
		r.see("slipway explain pod default/inflate-", "Running on node", "NodeClaim default-")
		r.press("\x7f\x7f\x7f")
		r.see("Sorted by name", "default-")
		r.press("q")
		all := r.ends()
		if !strings.Contains(all, "\x1b[?1049h") || strings.LastIndex(all, "\x1b[?1049l") < strings.LastIndex(all, "\x1b[?1049h") {
			t.Errorf("%v does not leave the terminal as it was:\n%q", args, all)
		}
		if color := regexp.MustCompile(`\x1b\[[0-9;]*\b(3[0-7]|38|4[0-7]|48)[;m]`).FindString(all); color != "" {
			t.Errorf("%v has the color %q with NO_COLOR", args, color)
		}
	}
}

// dumb looks at the cluster on a terminal that cannot move its cursor.
func (w *world) dumb(t *testing.T) {
	t.Helper()
	r := w.terminal(t, []string{"TERM=dumb"}, "top", "--interval", "1s")
	seen := func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.all.String()
	}
	for deadline := time.Now().Add(commandTakes); strings.Count(seen(), "Pods: ") < 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("two tables were expected:\n%s", seen())
		}
	}
	r.press("\x03") // Ctrl-C: the terminal sends SIGINT.
	if all := r.ends(); strings.Contains(all, "\x1b") {
		t.Errorf("a dumb terminal got an escape sequence: %q", all)
	}
}

package walk_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// inLanes walks in several parallel processes (lanes), each with its own sandbox, since a process can run only one
// kube-apiserver. With a ledger, a lane that fails continues with its next case in another sandbox.
func inLanes(t *testing.T, lanes int, until time.Time) {
	t.Helper()
	for lane := range lanes {
		t.Run(fmt.Sprint(lane+1), func(t *testing.T) {
			t.Parallel()
			done := ledger{path: argument[string]("walk.done")}
			mine := share(every(t), lane, lanes)
			for left := len(done.left(t, mine)); left > 0; {
				err := inLane(t, append(slices.Clone(os.Args[1:]), "-test.run=^TestCrashWalk$",
					fmt.Sprintf("-walk.lane=%d", lane+1), fmt.Sprintf("-walk.for=%s", time.Until(until))))
				if err != nil {
					t.Error(err)
				}
				before := left
				if left = len(done.left(t, mine)); err == nil || left == before || time.Now().After(until) {
					return
				}
			}
		})
	}
}

// inLane runs one process of a lane to its end.
func inLane(t *testing.T, args []string) error {
	t.Helper()
	run := exec.CommandContext(t.Context(), os.Args[0], args...)
	out, err := run.StdoutPipe()
	if err != nil {
		return err
	}
	run.Stderr = run.Stdout
	if err := run.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		t.Log(strings.TrimSpace(lines.Text()))
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return run.Wait()
}

// share returns the cases of one of several lanes.
func share(cases []walkCase, lane, lanes int) []walkCase {
	var out []walkCase
	for i := lane; i < len(cases); i += max(lanes, 1) {
		out = append(out, cases[i])
	}
	return out
}

// ledger is a file with the cases that were walked and their results, one per line, so that a walk can be split over several
// runs. Without a path nothing is written.
type ledger struct{ path string }

// left returns the cases that are not in the file, with any result.
func (l ledger) left(t *testing.T, cases []walkCase) []walkCase {
	t.Helper()
	if l.path == "" {
		return cases
	}
	data, err := os.ReadFile(l.path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	walked := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		walked[name] = true
	}
	return slices.DeleteFunc(slices.Clone(cases), func(c walkCase) bool { return walked[c.String()] })
}

// walked writes how a case ended: done, missed where its step was not reached, failed where it ended the test.
func (l ledger) walked(t *testing.T, c walkCase, walk func() bool) (reached bool) {
	t.Helper()
	how := "failed"
	defer func() {
		if l.path == "" {
			return
		}
		file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := fmt.Fprintln(file, how, c); err != nil {
			t.Error(err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	if reached = walk(); reached {
		how = "done"
	} else {
		how = "missed"
	}
	return reached
}

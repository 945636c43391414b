package figures_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/e2e/kubelets/figures"
)

// A run that was ended in the middle goes on where it was: round after round, each through all cells.
func TestRoundsGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures")
	cells := []figures.Cell{{Name: "one", Ways: []string{"auto", "scheduler"}}, {Name: "two", Ways: []string{"auto"}}}
	var order []string
	seconds := 1.0
	for range 6 { // Each a process of its own.
		f, err := figures.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		cell, round, more := f.Next(cells, 2)
		if !more {
			order = append(order, "done")
			continue
		}
		order = append(order, fmt.Sprintf("%s %d", cell.Name, round))
		var measured []figures.Figure
		for _, way := range cell.Ways {
			measured = append(measured, figures.Figure{Cell: cell.Name, Way: way, Seconds: seconds})
			seconds *= 2
		}
		if err := f.Add(measured...); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"one 0", "two 0", "one 1", "two 1", "done", "done"}, order); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	f, err := figures.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `| seconds: median (lowest–highest, rounds) | auto | scheduler |
|---|---|---|
| one | 4.5 (1.0–8.0, 2) | 9.0 (2.0–16.0, 2) |
| two | 18.0 (4.0–32.0, 2) |  |
`
	if diff := cmp.Diff(want, f.Table(cells)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = `| later by, seconds: median (lowest–highest), earlier in | auto than scheduler |
|---|---|
| one | -4.5 (-8.0–-1.0), 2 of 2 |
| two |  |
`
	if diff := cmp.Diff(want, f.Compare(cells, []figures.Pair{{Way: "auto", Other: "scheduler"}})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What was being written when the process was killed is no figure; what is no file of figures is said.
func TestBrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures")
	if err := os.WriteFile(path, []byte(`{"Cell":"one","Way":"auto","Seconds":3}`+"\n"+`{"Cell":"o`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f, err := figures.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Add(figures.Figure{Cell: "one", Way: "auto", Seconds: 3}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := figures.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Table([]figures.Cell{{Name: "one", Ways: []string{"auto"}}}); !strings.Contains(got, "3.0 (3.0–3.0, 3)") {
		t.Errorf("after a broken line:\n%s", got)
	}
	if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := figures.Open(path); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("no error that names the line: %v", err)
	}
}

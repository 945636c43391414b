package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/sandbox/control"
)

// Each selected case is run once: those of CapacityBuffer with a NodePool of 2 CPUs, the others with the provider's.
func TestParts(t *testing.T) {
	pool := filepath.Join(t.TempDir(), "pool.yaml")
	text := "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: default\nspec:\n  template:\n    spec:\n      requirements: []\n"
	if err := os.WriteFile(pool, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cluster{nodePool: pool, state: control.State{Folder: t.TempDir()}}
	names := []string{"Drift one", "CapacityBuffer one", "CapacityBuffer two (or more)", "StaticCapacity next to CapacityBuffer"}
	for _, focus := range []string{"", "CapacityBuffer", "CapacityBuffer one", "Drift", "Regression CapacityBuffer two", "nothing"} {
		parts, err := partsOf(c, names, options{suite: regression, focus: focus})
		if err != nil {
			t.Fatal(err)
		}
		runs := map[string]int{}
		for _, p := range parts {
			text, err := os.ReadFile(p.nodePool)
			if err != nil {
				t.Fatal(err)
			}
			narrow := strings.Contains(string(text), "instance-cpu")
			for _, name := range names {
				full := "Regression " + name
				if regexp.MustCompile(p.focus).MatchString(full) && (p.skip == "" || !regexp.MustCompile(p.skip).MatchString(full)) {
					runs[name]++
					if narrow != strings.HasPrefix(name, bufferCases) {
						t.Errorf("focus %q: %s runs with the wrong NodePool", focus, name)
					}
				}
			}
		}
		for _, name := range names {
			selected := regexp.MustCompile(focus).MatchString("Regression " + name)
			if want := map[bool]int{true: 1}[selected]; runs[name] != want {
				t.Errorf("focus %q: %s runs %d times, want %d", focus, name, runs[name], want)
			}
		}
	}
}

// The results of two runs are one table.
func TestMerged(t *testing.T) {
	got := merged(
		[]result{{name: "a", verdict: passed}, {name: "b", verdict: unselected}, {name: "AfterSuite", verdict: failed}},
		[]result{{name: "a", verdict: unselected}, {name: "b", verdict: failed}, {name: "c", verdict: passed}},
	)
	if len(got) != 4 || got[0].verdict != passed || got[1].verdict != failed || got[3].verdict != passed || failures(got) != 2 {
		t.Errorf("%+v", got)
	}
}

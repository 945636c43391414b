package walk_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/tap"
)

const stepsFile = "testdata/steps.txt"

// nthAtMost is how many effects of one name in a flow are steps: the first, and one among others of its name.
const nthAtMost = 2

// recordSteps writes the steps that each flow has every time. The steps of flows that were not requested stay.
func recordSteps(s *stage) {
	s.t.Helper()
	const rounds = 3
	always := map[step]int{}
	var order []step
	for _, st := range readSteps(s.t) {
		if !asked(st.flow) {
			always[st], order = rounds, append(order, st)
		}
	}
	for range rounds {
		for _, f := range flows() {
			if !asked(f.name) {
				continue
			}
			s.rest(f.from)
			from := s.Journal().Last()
			s.run(f)
			for _, st := range stepsOf(f.name, s.Journal().Since(from)) {
				if always[st]++; always[st] == 1 {
					order = append(order, st)
				}
			}
		}
	}
	var b strings.Builder
	b.WriteString("# flow, process, nth, effect: written by -walk.record; every test run is held against the names.\n")
	for _, f := range flows() {
		for _, st := range order {
			if st.flow == f.name && always[st] == rounds {
				fmt.Fprintf(&b, "%s %s %d %s\n", st.flow, st.process, st.nth, st.effect)
			}
		}
	}
	if err := os.MkdirAll(filepath.Dir(stepsFile), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(stepsFile, []byte(b.String()), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// stepsOf lists the steps among effects, in order.
func stepsOf(flow string, effects []tap.Effect) []step {
	var out []step
	n := map[string]int{}
	for _, e := range effects {
		if counted(e) == "" {
			continue
		}
		key := e.Process + " " + e.Name
		if n[key]++; n[key] <= nthAtMost {
			out = append(out, step{flow, e.Process, e.Name, n[key]})
		}
	}
	return out
}

func readSteps(tb testing.TB) []step {
	tb.Helper()
	file, err := os.Open(stepsFile)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var out []step
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var s step
		if _, err := fmt.Sscanf(lines.Text(), "%s %s %d", &s.flow, &s.process, &s.nth); err != nil {
			tb.Fatalf("%s: %q: %v", stepsFile, lines.Text(), err)
		}
		s.effect = strings.SplitN(lines.Text(), " ", 4)[3]
		out = append(out, s)
	}
	if len(out) == 0 {
		tb.Fatalf("%s names no steps", stepsFile)
	}
	return out
}

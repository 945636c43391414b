package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/slipway-k8s/slipway/launcher/disrupt"
)

// TestNext runs the files of testdata/next. Each `next` has the state of a move and prints its next step:
//
//	next [running=D] [silent=D] [confirmed=D] [protected=D] [failing=D] [room] [deleting]
//	node NAME [leaving] [foreign] [cordoned] [idle] [busy=WHY] [protected=WHY] [uncovered=POD] [arrived=POD]
//	replacement NAME [gone] [initialized]
//	refused WHY
//	failure WHY
//
// _ stands for a blank.
func TestNext(t *testing.T) {
	datadriven.Walk(t, "testdata/next", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			step, why := disrupt.Next(factsOf(t, d))
			return strings.TrimSuffix(fmt.Sprintf("%s: %s", step, why), ": ") + "\n"
		})
	})
}

func factsOf(t *testing.T, d *datadriven.TestData) disrupt.Facts {
	t.Helper()
	f := disrupt.Facts{Room: d.HasArg("room"), Deleting: d.HasArg("deleting")}
	for name, field := range map[string]*time.Duration{"running": &f.Running, "silent": &f.Silent, "confirmed": &f.Confirmed, "protected": &f.Protected, "failing": &f.Failing} {
		if !d.HasArg(name) {
			continue
		}
		var text string
		d.ScanArgs(t, name, &text)
		var err error
		if *field, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		has := func(word string) bool { return slices.Contains(words[2:], word) }
		value := func(key string) string {
			for _, w := range words[2:] {
				if v, ok := strings.CutPrefix(w, key+"="); ok {
					return strings.ReplaceAll(v, "_", " ")
				}
			}
			return ""
		}
		switch words[0] {
		case "node":
			f.Nodes = append(f.Nodes, disrupt.NodeFacts{
				Name: words[1], Terminating: has("leaving"), Foreign: has("foreign"), Cordoned: has("cordoned"), Idle: has("idle"),
				Busy: value("busy"), Protected: value("protected"), Uncovered: value("uncovered"), Arrived: value("arrived"),
			})
		case "replacement":
			f.Replacements = append(f.Replacements, disrupt.ReplacementFacts{Name: words[1], Failed: has("gone"), Initialized: has("initialized"), Slow: has("slow")})
		case "refused":
			f.Refused = strings.ReplaceAll(words[1], "_", " ")
		case "failure":
			f.Failure = strings.ReplaceAll(words[1], "_", " ")
		default:
			d.Fatalf(t, "unknown %q", words[0])
		}
	}
	return f
}

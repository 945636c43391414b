package main

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

const reportText = `[{"SpecReports": [
 {"LeafNodeType": "BeforeSuite", "State": "passed", "RunTime": 1000},
 {"ContainerHierarchyTexts": ["Drift", "Budgets"], "LeafNodeType": "It", "LeafNodeText": "respects", "State": "passed", "RunTime": 2000000000},
 {"ContainerHierarchyTexts": ["Drift"], "LeafNodeType": "It", "LeafNodeText": "is kwok's", "State": "skipped"},
 {"ContainerHierarchyTexts": ["Drift"], "LeafNodeType": "It", "LeafNodeText": "is not chosen", "State": "skipped"},
 {"ContainerHierarchyTexts": ["Drift"], "LeafNodeType": "It", "LeafNodeText": "gives up", "State": "skipped", "Failure": {"Message": "Skip called"}},
 {"ContainerHierarchyTexts": ["Chaos"], "LeafNodeType": "It", "LeafNodeText": "runs away", "State": "failed", "RunTime": 3000000000,
  "Failure": {"Message": "expected 1 node,\n  had 3", "Location": {"FileName": "/m/karpenter/test/suites/regression/chaos_test.go", "LineNumber": 7}}},
 {"ContainerHierarchyTexts": ["Chaos"], "LeafNodeType": "It", "LeafNodeText": "hangs", "State": "timedout", "Failure": {"Message": "late"}},
 {"ContainerHierarchyTexts": ["Chaos"], "LeafNodeType": "It", "LeafNodeText": "is to be written", "State": "pending"},
 {"LeafNodeType": "AfterSuite", "State": "panicked", "Failure": {"Message": "boom"}}
]}]`

func TestTable(t *testing.T) {
	cases, err := parseReport([]byte(reportText), map[string]string{"Drift is kwok's": "it asserts kwok's label"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	printTable(&out, "Karpenter's suite", cases)
	want := `
Karpenter's suite
failed       0.0 s  Drift gives up
                    skipped: Skip called
failed       3.0 s  Chaos runs away
                    failed: expected 1 node, had 3 (suites/regression/chaos_test.go:7)
failed       0.0 s  Chaos hangs
                    timedout: late
failed       0.0 s  AfterSuite
                    panicked: boom
passed       2.0 s  Drift Budgets respects
left out     0.0 s  Drift is kwok's
                    it asserts kwok's label
left out     0.0 s  Chaos is to be written
                    pending in Karpenter's own suite

1 passed, 4 failed, 2 left out, 1 not selected
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if got := ran(cases); got != 5 {
		t.Errorf("%d cases ran, want 5", got)
	}
}

// A case that is left out is matched by its whole name, after the one of the suite.
func TestSkipPattern(t *testing.T) {
	pattern := regexp.MustCompile(skipPattern(map[string]string{"Drift is (kwok's)": "why", "Chaos": "why"}, "slow"))
	for text, want := range map[string]bool{
		"Regression Drift is (kwok's)":     true,
		"Regression Drift is (kwok's) too": false,
		"Regression Chaos":                 true,
		"Regression Chaos is not left out": false,
		"Regression a slow one":            true,
	} {
		if got := pattern.MatchString(text); got != want {
			t.Errorf("%q is skipped: %t, want %t", text, got, want)
		}
	}
	if got := skipPattern(nil, ""); got != "" {
		t.Errorf("got pattern %q where nothing is left out, want none", got)
	}
}

// Only cases of Chaos and the performance suite need the port.
func TestListens(t *testing.T) {
	names := []string{"Chaos Runaway Scale-Up should not", "Drift Budgets"}
	for _, c := range []struct {
		suite, focus string
		want         bool
	}{{regression, "", true}, {regression, "^Regression Chaos", true}, {regression, "Drift", false}, {performance, "Drift", true}} {
		if got, err := listens(c.suite, names, c.focus); err != nil || got != c.want {
			t.Errorf("suite %s with focus %q listens: %t and error %v, want %t", c.suite, c.focus, got, err, c.want)
		}
	}
	if _, err := listens(regression, names, "("); err == nil {
		t.Error("a focus that is no regular expression is accepted")
	}
}

// A long message is cut at a whole character.
func TestFirstLines(t *testing.T) {
	if got := firstLines(strings.Repeat("é", 500)); got != strings.Repeat("é", 240)+"…" {
		t.Errorf("got %q", got)
	}
}

func TestUnselectedCasesDoNotFail(t *testing.T) {
	cases := []result{{verdict: passed, took: time.Second}, {verdict: unselected}, {verdict: omitted}}
	if failures(cases) != 0 || ran(cases) != 1 {
		t.Errorf("%d failed and %d ran, want 0 and 1", failures(cases), ran(cases))
	}
}

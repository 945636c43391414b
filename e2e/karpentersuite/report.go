package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// report is what is read of a Ginkgo JSON report.
type report struct {
	SpecReports []spec
}

// spec is one node of a report: a case, or a suite's own set-up.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct {
		Message  string
		Location struct {
			FileName   string
			LineNumber int
		}
	}
}

// name is the full name of a case, as Ginkgo's focus matches it.
func (s spec) name() string {
	return strings.TrimSpace(strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " "))
}

// verdict of a case.
type verdict int

// The verdicts in the order of the table. A case that the focus does not select is unselected.
const (
	failed verdict = iota
	passed
	omitted
	unselected
)

func (v verdict) String() string {
	switch v {
	case failed:
		return "failed"
	case passed:
		return "passed"
	case omitted:
		return "left out"
	default:
		return "not selected"
	}
}

// result of a case.
type result struct {
	name    string
	verdict verdict
	took    time.Duration
	// reason is why the case failed or is left out.
	reason string
}

// parseReport returns the result of each case of a report, and of a suite's own set-up where that failed.
func parseReport(data []byte, leftOut map[string]string) ([]result, error) {
	var reports []report
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, err
	}
	var out []result
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if s.LeafNodeType != "It" && s.State == "passed" {
				continue
			}
			out = append(out, resultOf(s, leftOut))
		}
	}
	return out, nil
}

func resultOf(s spec, leftOut map[string]string) result {
	r := result{name: s.name(), took: s.RunTime}
	if s.LeafNodeType != "It" {
		r.name = s.LeafNodeType
	}
	why, listed := leftOut[r.name]
	switch {
	case s.State == "passed":
		r.verdict = passed
	case s.State == "skipped" && listed:
		r.verdict, r.reason = omitted, why
	case s.State == "skipped" && s.Failure.Message == "":
		r.verdict = unselected
	case s.State == "pending":
		r.verdict, r.reason = omitted, "pending in Karpenter's own suite"
	default:
		r.reason = s.State + ": " + firstLines(s.Failure.Message)
		if _, file, found := strings.Cut(s.Failure.Location.FileName, "/test/"); found {
			r.reason += fmt.Sprintf(" (%s:%d)", file, s.Failure.Location.LineNumber)
		}
	}
	return r
}

// firstLines returns the start of a message on one line.
func firstLines(text string) string {
	const most = 240
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// unknown returns the listed names that no case has, sorted.
func unknown(cases, listed []string) []string {
	out := slices.DeleteFunc(slices.Clone(listed), func(name string) bool { return slices.Contains(cases, name) })
	slices.Sort(out)
	return out
}

// count returns how many results have the verdict.
func count(cases []result, v verdict) int {
	n := 0
	for _, c := range cases {
		if c.verdict == v {
			n++
		}
	}
	return n
}

func failures(cases []result) int { return count(cases, failed) }

func ran(cases []result) int { return count(cases, failed) + count(cases, passed) }

// printTable prints all cases that were selected: the failed ones first.
func printTable(w io.Writer, title string, cases []result) {
	cases = slices.Clone(cases)
	slices.SortStableFunc(cases, func(a, b result) int { return cmp.Compare(a.verdict, b.verdict) })
	fmt.Fprintf(w, "\n%s\n", title)
	for _, c := range cases {
		if c.verdict == unselected {
			continue
		}
		fmt.Fprintf(w, "%-8s %7.1f s  %s\n", c.verdict, c.took.Seconds(), c.name)
		if c.reason != "" {
			fmt.Fprintf(w, "%20s%s\n", "", c.reason)
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d left out, %d not selected\n",
		count(cases, passed), count(cases, failed), count(cases, omitted), count(cases, unselected))
}

package conventions_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/karpenter-issues.md names, for each public issue that a scenario is about, the files of these scenarios: all that name
// the issue in the comment at their top, and no other.
func TestIssuesOfScenarios(t *testing.T) {
	root := moduleRoot(t)
	issue := regexp.MustCompile(`\b(?:kk|kpa)#\d+`)
	named := scenariosByIssue(t, root, issue)
	page, err := os.ReadFile(filepath.Join(root, "docs", "karpenter-issues.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(\.\./([^)]+)\)`)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !issue.MatchString(cells[1]) {
			continue
		}
		var want, have []string
		for _, id := range issue.FindAllString(cells[1], -1) {
			want = append(want, named[id]...)
			if named[id] == nil {
				t.Errorf("the table has %s, which no scenario names, or a row above has it too", id)
			}
			delete(named, id)
		}
		for _, m := range link.FindAllStringSubmatch(cells[3], -1) {
			have = append(have, m[1])
		}
		slices.Sort(want)
		slices.Sort(have)
		if want = slices.Compact(want); !slices.Equal(want, have) {
			t.Errorf("row %s has the scenarios %v, those that name the issues are %v", cells[1], have, want)
		}
	}
	for id, files := range named {
		t.Errorf("the table does not have %s, which %v name", id, files)
	}
}

// scenariosByIssue are the files of the scenarios that name an issue in the comment at their top.
func scenariosByIssue(t *testing.T, root string, issue *regexp.Regexp) map[string][]string {
	t.Helper()
	named := map[string][]string{}
	for _, pattern := range []string{
		"plugin/plan/testdata/*.txtar", "plugin/simulate/testdata/*.txtar", "plugin/simulate/testdata/consolidate/*.txtar",
		"launcher/*/testdata/*.txt", "launcher/*/testdata/*/*.txt", "internal/disruption/testdata/*/*.txt",
	} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no scenarios %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			comment := topComment(string(text))
			short, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range issue.FindAllString(comment, -1) {
				named[id] = append(named[id], filepath.ToSlash(short))
			}
		}
	}
	return named
}

// topComment is what a scenario begins with: all before the first file of an archive, the first lines with # of a script.
func topComment(text string) string {
	comment, _, archive := strings.Cut(text, "\n-- ")
	if archive {
		return comment
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		out.WriteString(line)
	}
	return out.String()
}

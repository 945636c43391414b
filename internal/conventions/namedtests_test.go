package conventions_test

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Tests and scenario files that a page names exist: a name that leads nowhere shows nothing.
func TestDocumentedTestsExist(t *testing.T) {
	root := moduleRoot(t)
	declared := declaredTests(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 15 {
		t.Fatalf("pages %v, %v", pages, err)
	}
	named := regexp.MustCompile("`(Test[A-Z0-9][A-Za-z0-9]*|[a-z0-9_/]+/testdata/[A-Za-z0-9_./-]+)`")
	count := 0
	for _, page := range append(pages, filepath.Join(root, "ARCHITECTURE.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			count++
			name, there := match[1], declared[match[1]]
			if strings.Contains(name, "/") {
				_, err := os.Stat(filepath.Join(root, name))
				there = err == nil
			}
			if !there {
				t.Errorf("%s names %s, which does not exist", filepath.Base(page), name)
			}
		}
	}
	if count < 150 {
		t.Errorf("only %d tests are named", count)
	}
}

// declaredTests are the names of the module's test functions.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	_, files := tree(t)
	for _, f := range files {
		for _, d := range f.file.Decls {
			if function, ok := d.(*ast.FuncDecl); ok && f.isTest() && strings.HasPrefix(function.Name.Name, "Test") {
				declared[function.Name.Name] = true
			}
		}
	}
	return declared
}

// outages are those that the table of docs/operations.md has a row for: the first words of each.
func outages() []string {
	return []string{
		"AWS API down", "AWS throttling", "Pricing API", "SQS", "kube-apiserver", "one zone without capacity", "a clock 60 s off", "a full disk",
		"launcher killed", "scheduler killed", "no connection between launcher and scheduler",
	}
}

// Each row of the table of outages is complete, and ends with tests that exist.
func TestOutagesHaveTests(t *testing.T) {
	_, section, found := strings.Cut(docsPage(t, "operations.md"), "\n## Outages\n")
	if !found {
		t.Fatal("docs/operations.md has no section Outages")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	declared, rows := declaredTests(t), map[string]int{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what fails ") {
			continue
		}
		for _, problem := range incomplete(cells, declared) {
			t.Errorf("outage %q: %s", strings.TrimSpace(cells[0]), problem)
		}
		for _, outage := range outages() {
			if strings.HasPrefix(strings.TrimSpace(cells[0]), outage) {
				rows[outage]++
			}
		}
	}
	for _, outage := range outages() {
		if rows[outage] == 0 {
			t.Errorf("docs/operations.md has no row for %q", outage)
		}
	}
}

// Each row of the tables of docs/security.md says who attempts what or which part it is about, the bound, and the tests that hold it.
func TestThreatsHaveTests(t *testing.T) {
	declared, rows, table := declaredTests(t), 0, false
	for line := range strings.Lines(docsPage(t, "security.md")) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		switch {
		case !strings.HasPrefix(line, "| "):
			table = table && strings.HasPrefix(line, "|---")
		case strings.HasSuffix(line, "| shown by |"):
			table = true
		case table:
			rows++
			for _, problem := range unshown(cells, declared) {
				t.Errorf("docs/security.md: %q: %s", strings.TrimSpace(cells[0]), problem)
			}
		}
	}
	if rows < 30 {
		t.Errorf("docs/security.md has %d rows with tests", rows)
	}
}

// incomplete returns what a row of the table of outages lacks: a cell, or a test.
func incomplete(cells []string, declared map[string]bool) []string {
	if len(cells) != 5 {
		return []string{fmt.Sprintf("%d cells, want 5", len(cells))}
	}
	return unshown(cells, declared)
}

// unshown returns what a row that ends with its tests lacks: a cell, or a test.
func unshown(cells []string, declared map[string]bool) []string {
	var out []string
	for i, cell := range cells {
		if strings.TrimSpace(cell) == "" {
			out = append(out, fmt.Sprintf("cell %d is empty", i+1))
		}
	}
	tests := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
	if len(tests) == 0 {
		out = append(out, "no test is named")
	}
	for _, match := range tests {
		if !declared[match[1]] {
			out = append(out, match[1]+" does not exist")
		}
	}
	return out
}

func TestIncompleteOutages(t *testing.T) {
	declared := map[string]bool{"TestA": true}
	for row, want := range map[string]int{
		"disk|seen|goes on|stops|`TestA`":          0,
		"disk|seen|goes on|stops|`TestA`, `TestB`": 1,
		"disk|seen|goes on|stops|not tested":       1,
		"disk|seen||stops|`TestA`":                 1,
		"disk|seen|goes on|`TestA`":                1,
	} {
		if got := incomplete(strings.Split(row, "|"), declared); len(got) != want {
			t.Errorf("%s: %q, want %d", row, got, want)
		}
	}
}

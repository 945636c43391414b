package conventions_test

import (
	"regexp"
	"strings"
	"testing"
)

// A metric that docs/metrics.md lists as left out is in none of its tables, which other tests compare with the code.
func TestMetricsThatAreLeftOut(t *testing.T) {
	page := docsPage(t, "metrics.md")
	_, rest, found := strings.Cut(page, "\nThese metrics of Karpenter's are left out:\n")
	left, tables, cut := strings.Cut(rest, "\n## ")
	if !found || !cut {
		t.Fatal("docs/metrics.md does not say which metrics are left out")
	}
	registered := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:counter|gauge|histogram|summary) \\|").FindAllStringSubmatch(tables, -1) {
		registered[row[1]] = true
	}
	count := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(left, -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			count++
			if registered[name[1]] {
				t.Errorf("docs/metrics.md says that %s is left out, and lists it", name[1])
			}
		}
	}
	if count < 8 || len(registered) < 80 {
		t.Errorf("%d metrics are left out, %d are registered", count, len(registered))
	}
}

package join_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/bind"
)

func lifecycle(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "node-lifecycle.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tests are the names of all test functions of the project.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	out := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every failure that early binding had in Karpenter is in the page's table, with tests that exist.
func TestDocsNameTheTestsOfEarlyBinding(t *testing.T) {
	exist := tests(t)
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (R\d+) \|.*\| (.+) \|$`).FindAllStringSubmatch(lifecycle(t), -1) {
		for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(m[2], -1) {
			rows[m[1]] = append(rows[m[1]], name[1])
		}
	}
	for _, r := range []string{"R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12"} {
		if len(rows[r]) == 0 {
			t.Errorf("%s: no test is named", r)
		}
		for _, name := range rows[r] {
			if !exist[name] {
				t.Errorf("%s: there is no test %s", r, name)
			}
		}
	}
}

// The page's table of rules is that of the code, in its order.
func TestDocsShowTheRules(t *testing.T) {
	words := map[bind.Moment]string{bind.Launch: "at launch", bind.Ready: "at Ready", bind.Scheduler: "by the scheduler"}
	var want, got []string
	for _, r := range bind.Rules() {
		want = append(want, r.Code+" "+words[r.Moment])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (at launch|at Ready|by the scheduler) \\|").FindAllStringSubmatch(lifecycle(t), -1) {
		got = append(got, m[1]+" "+m[2])
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/node-lifecycle.md has the rules\n%v, the code\n%v", got, want)
	}
}

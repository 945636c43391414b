package conventions_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Karpenter's API packages import clients, so a package's dependencies do not show whether its rules are pure. Its own imports do: plain
// data in, decisions out.
func TestRulesOfDisruptionImportPlainDataAlone(t *testing.T) {
	allowed := []string{
		"cmp", "errors", "fmt", "maps", "math", "slices", "strconv", "strings", "time",
		"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/labels", "k8s.io/apimachinery/pkg/types",
		"k8s.io/apimachinery/pkg/util/intstr", "k8s.io/apimachinery/pkg/util/resourceversion", "sigs.k8s.io/karpenter/pkg/apis/v1", "github.com/awslabs/operatorpkg/status",
		"github.com/robfig/cron/v3", module + "/internal/disruption/", module + "/launcher/catalog",
	}
	_, files := tree(t)
	found := false
	for _, f := range files {
		if f.isTest() || !below(f.dir(), "internal/disruption") {
			continue
		}
		found = true
		for _, imp := range f.file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if !slices.ContainsFunc(allowed, func(a string) bool { return path == a || strings.HasSuffix(a, "/") && strings.HasPrefix(path, a) }) {
				t.Errorf("%s imports %s: the rules of disruption are pure functions over plain data", f.path, path)
			}
		}
	}
	if !found {
		t.Error("no file below disruption: the rule guards nothing")
	}
}

// A decision that reads a clock cannot be repeated: the time is an argument.
func TestPureDecisionsReadNoClock(t *testing.T) {
	pure := []string{"internal/disruption", "plugin/plan", "plugin/batch", "plugin/consolidate", "launcher/catalog", "launcher/drain"}
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	fset, files := tree(t)
	seen := map[string]bool{}
	for _, f := range files {
		at := slices.IndexFunc(pure, func(dir string) bool { return below(f.dir(), dir) })
		if f.isTest() || at < 0 {
			continue
		}
		seen[pure[at]] = true
		ast.Inspect(f.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clocks, call.Sel.Name) {
				if of, ok := call.X.(*ast.Ident); ok && of.Name == "time" {
					t.Errorf("%s: time.%s: a pure decision takes the time as an argument", fset.Position(call.Pos()), call.Sel.Name)
				}
			}
			return true
		})
	}
	for _, dir := range pure {
		if !seen[dir] {
			t.Errorf("no package below %s: the rule guards nothing", dir)
		}
	}
}

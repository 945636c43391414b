package conventions_test

import (
	"go/ast"
	"strings"
	"testing"
)

// Packages that the Makefile tests without the race detector contain nothing that it could find: no goroutine, no lock.
func TestOnlyPureCodeIsTestedWithoutTheRaceDetector(t *testing.T) {
	text := fileOf(t, "Makefile")
	_, list, found := strings.Cut(strings.ReplaceAll(text, "\\\n", " "), "\nPURE := ")
	list, _, _ = strings.Cut(list, "\n")
	pure := map[string]bool{}
	for dir := range strings.FieldsSeq(list) {
		pure[strings.TrimPrefix(dir, "./")] = false
	}
	if !found || len(pure) == 0 {
		t.Fatal("the Makefile has no list PURE")
	}
	_, files := tree(t)
	for _, f := range files {
		if _, listed := pure[f.dir()]; !listed {
			continue
		}
		pure[f.dir()] = true
		ast.Inspect(f.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: take %s off the Makefile's list PURE", f.path, f.dir())
			case *ast.ImportSpec:
				if n.Path.Value == `"sync"` || n.Path.Value == `"sync/atomic"` {
					t.Errorf("%s imports %s: take %s off the Makefile's list PURE", f.path, n.Path.Value, f.dir())
				}
			}
			return true
		})
	}
	for dir, seen := range pure {
		if !seen {
			t.Errorf("the Makefile's list PURE names %s, which is no package", dir)
		}
	}
}

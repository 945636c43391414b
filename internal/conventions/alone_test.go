package conventions_test

import (
	"go/ast"
	"strings"
	"testing"
)

// The end-to-end tests run in processes with a sandbox each: those that disturb others, one after the other, and all others beside each other. A
// name says to which group a test belongs, and the Makefile picks by it.
func TestEndToEndTestsThatDisturbOthersAreNamed(t *testing.T) {
	_, files := tree(t)
	alone, beside := 0, 0
	for _, f := range files {
		if f.dir() != "e2e" || !f.isTest() {
			continue
		}
		for _, function := range testsOf(f) {
			named, parallel := strings.HasSuffix(function.Name.Name, "Alone"), callsParallel(function)
			switch {
			case named && parallel:
				t.Errorf("%s of %s runs beside others: its name ends in Alone", function.Name.Name, f.path)
			case !named && !parallel:
				t.Errorf("%s of %s runs beside no other: call t.Parallel, or end its name in Alone", function.Name.Name, f.path)
			case named:
				alone++
			default:
				beside++
			}
		}
	}
	if alone == 0 || beside == 0 {
		t.Errorf("found %d tests that run alone and %d that run beside others, want some of both", alone, beside)
	}
}

// testsOf returns the test functions of a file.
func testsOf(f source) []*ast.FuncDecl {
	var out []*ast.FuncDecl
	for _, d := range f.file.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(function.Name.Name, "Test") && function.Name.Name != "TestMain" {
			out = append(out, function)
		}
	}
	return out
}

// callsParallel reports whether the function calls t.Parallel, in a subtest or itself.
func callsParallel(function *ast.FuncDecl) bool {
	found := false
	ast.Inspect(function, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		found = found || ok && selector.Sel.Name == "Parallel"
		return true
	})
	return found
}

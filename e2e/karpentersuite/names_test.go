package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every case that is left out or needs EC2's speed is one of the suite, and one that is left out has a reason.
func TestListedCasesExist(t *testing.T) {
	for _, suite := range []string{regression, performance} {
		listed := slices.AppendSeq(realTime(suite), maps.Keys(leftOut(suite)))
		if none := unknown(declared(t, suite), listed); len(none) > 0 {
			t.Errorf("suite %s has no case named %q: take it off the list", suite, none)
		}
		for name, why := range leftOut(suite) {
			if why == "" {
				t.Errorf("%q is left out without a reason", name)
			}
		}
	}
}

// What reads the names out of the sources finds the cases that the suites are known to have.
func TestDeclaredNames(t *testing.T) {
	for suite, want := range map[string][]string{
		regression: {
			"Drift Budgets should respect budgets for empty drift",
			"Drift NodePool Drift Start-up Taints",
			"Integration Validation Repair Policy Conditions Node Ready Unknown",
			"StaticCapacity Edge Cases should handle NodePool deletion gracefully",
		},
		performance: {"Performance Basic Deployment should efficiently scale two deployments with different resource profiles"},
	} {
		names := declared(t, suite)
		for _, name := range want {
			if !slices.Contains(names, name) {
				t.Errorf("suite %s: %q is not among its %d cases %q", suite, name, len(names), names)
			}
		}
	}
	if none := unknown(declared(t, regression), []string{"Drift no such case"}); len(none) != 1 {
		t.Errorf("got unknown names %q, want the one that no case has", none)
	}
}

// declared returns the full names of a suite's cases, from its sources.
func declared(t *testing.T, suite string) []string {
	t.Helper()
	folder, err := moduleFolder(t.Context(), "sigs.k8s.io/karpenter")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(folder, "test", "suites", suite, "*_test.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("suite %s has no files below %s: %v", suite, folder, err)
	}
	var names []string
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, casesBelow(file, nil)...)
	}
	return names
}

// casesBelow returns the names of the cases that Ginkgo's functions declare below a node of the syntax.
func casesBelow(root ast.Node, containers []string) []string {
	var names []string
	ast.Inspect(root, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		function, ok := call.Fun.(*ast.Ident)
		if !ok {
			return true
		}
		literal, ok := call.Args[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return true
		}
		path := append(slices.Clone(containers), text)
		switch function.Name {
		case "Describe", "Context", "When", "DescribeTable":
			for _, arg := range call.Args[1:] {
				names = append(names, casesBelow(arg, path)...)
			}
			return false
		case "It", "Entry":
			names = append(names, strings.Join(path, " "))
			return false
		}
		return true
	})
	return names
}

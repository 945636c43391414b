package conventions_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// verb is one of a format string.
func verbs() *regexp.Regexp { return regexp.MustCompile(`%[-+# 0]*[\d.*]*[a-zA-Z%]`) }

// plural is what follows a number that must not be 1: one to three words, the last of which is a plural, such as " instance types".
func plural() *regexp.Regexp { return regexp.MustCompile(`^(?: [a-z]+){0,2} [a-z]*[a-rt-z]s\b`) }

// verbatim are the texts of Kubernetes and Karpenter, whose tests and users compare them, and those whose number is two at least.
func verbatim() []string {
	return []string{
		" pods are waiting to be evicted", // Karpenter's condition Drained.
		" virtual pods ",                  // The conditions of a CapacityBuffer.
		" launches in a row failed",       // A NodePool backs off after the fourth.
		" tries in a row",                 // Said from the second on.
		" nodes rejected pods",            // Two at least.
	}
}

// manyPlural returns the format strings of a file that write a number before a plural, so that 1 would be written as "1 nodes".
// catalog.CountText writes both. A number that is a constant, and the second of "1 of 3 pods", may stand before a plural.
func manyPlural(fset *token.FileSet, f source) []string {
	var out []string
	ast.Inspect(f.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for i, arg := range call.Args {
			literal, ok := arg.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				continue
			}
			for _, found := range pluralVerbs(text, call.Args[i+1:]) {
				out = append(out, fmt.Sprintf("%s:%d: %q is wrong for 1: use catalog.CountText", f.path, fset.Position(literal.Pos()).Line, found))
			}
			break
		}
		return true
	})
	return out
}

// pluralVerbs returns the parts of a format string that are wrong where the number is 1.
func pluralVerbs(text string, args []ast.Expr) []string {
	var out []string
	next := 0
	for _, at := range verbs().FindAllStringIndex(text, -1) {
		verb, rest := text[at[0]:at[1]], text[at[1]:]
		if verb == "%%" {
			continue
		}
		n := next
		next += 1 + strings.Count(verb, "*")
		words := plural().FindString(rest)
		// More than a bound is more than one, and so are bytes.
		if regexp.MustCompile(`(?:^| )(?:is|has|was|its|bytes)$|^ o[fn] `).MatchString(words) || strings.Contains(rest, "at most") {
			continue
		}
		if !strings.HasSuffix(verb, "d") || words == "" || n >= len(args) || bound(args[n]) || strings.HasSuffix(text[:at[0]], " of ") || strings.HasSuffix(text[:at[0]], "/") {
			continue
		}
		if !slices.ContainsFunc(verbatim(), func(known string) bool { return strings.HasPrefix(rest, known) }) {
			out = append(out, verb+words)
		}
	}
	return out
}

// bound reports whether a number is a constant of the code, by its name.
func bound(arg ast.Expr) bool {
	name := ""
	switch a := arg.(type) {
	case *ast.Ident:
		name = a.Name
	case *ast.SelectorExpr:
		name = a.Sel.Name
	}
	return regexp.MustCompile(`^(?i:most|max|best|hours)`).MatchString(name)
}

// No sentence says "1 nodes".
func TestNumbersFitTheirNouns(t *testing.T) {
	fset, files := tree(t)
	for _, f := range files {
		if f.isTest() || f.generated() || strings.HasPrefix(f.path, "e2e/") || strings.HasPrefix(f.path, "internal/release") || strings.HasPrefix(f.path, "internal/conventions") || strings.HasPrefix(f.path, "launcher/cloud/") || strings.HasPrefix(f.path, "manifests/") {
			continue
		}
		for _, found := range manyPlural(fset, f) {
			t.Error(found)
		}
	}
}

func TestWrongPluralsAreFound(t *testing.T) {
	const code = "package a\n\nfunc f(n, mostPods int) { g(\"%s: %d of %d pods, %d nodes beside up to %d pods, %d more instance types\", 1, 2, 3, n, mostPods, 4); g(\"%d has\", n) }\n"
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "a.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`a.go:3: "%d nodes" is wrong for 1: use catalog.CountText`, `a.go:3: "%d more instance types" is wrong for 1: use catalog.CountText`}
	if got := manyPlural(fset, source{path: "a.go", file: file}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// apart is a figure with a space before the percent sign, in a text or in a format string: Kubernetes and kubectl write 100%.
func apart() *regexp.Regexp {
	return regexp.MustCompile(`(?:\d|%[\d.]*[dfgvs]) %%|\d %(?:[\s,;:)"]|$)`)
}

// A percent sign follows its figure, as in Kubernetes, everywhere: in what the code writes and in the pages.
func TestPercentSignsFollowTheirFigures(t *testing.T) {
	fset, files := tree(t)
	for _, f := range files {
		if f.generated() {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && f.dir() != "internal/conventions" {
				if found := apart().FindString(literal.Value); found != "" {
					t.Errorf("%s:%d: %q, write it without the space", f.path, fset.Position(literal.Pos()).Line, found)
				}
			}
			return true
		})
	}
	all := texts(t)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		for i, line := range all[path] {
			if found := apart().FindString(line); found != "" {
				t.Errorf("%s:%d: %q, write it without the space", path, i+1, found)
			}
		}
	}
}

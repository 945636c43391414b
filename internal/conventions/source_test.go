package conventions_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package without a doc comment does not say what it owns.
func TestEveryPackageIsDocumented(t *testing.T) {
	_, files := tree(t)
	documented := map[string]bool{}
	for _, f := range files {
		if !f.isTest() {
			documented[f.dir()] = documented[f.dir()] || f.file.Doc != nil
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment: say what it owns", dir)
		}
	}
}

// The map of the code must be complete: a package that ARCHITECTURE.md does not name is hard to find.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	text := fileOf(t, "ARCHITECTURE.md")
	_, files := tree(t)
	seen := map[string]bool{}
	for _, f := range files {
		if dir := f.dir(); !f.isTest() && !seen[dir] {
			seen[dir] = true
			if !strings.Contains(text, "`"+dir+"`") {
				t.Errorf("ARCHITECTURE.md does not name `%s`", dir)
			}
		}
	}
}

// Packages with vague names attract unrelated code.
func TestNoPackageWithoutAConcept(t *testing.T) {
	banned := []string{"util", "utils", "common", "helper", "helpers", "misc", "hack"}
	_, files := tree(t)
	for _, f := range files {
		for part := range strings.SplitSeq(f.dir(), "/") {
			if slices.Contains(banned, part) {
				t.Errorf("%s: a folder named %s has no concept of its own", f.path, part)
			}
		}
	}
}

// Units and zero values belong to the field, where the reader looks for them.
func TestExportedFieldsAreDocumented(t *testing.T) {
	fset, files := tree(t)
	for _, f := range files {
		if f.isTest() || f.generated() {
			continue
		}
		for _, spec := range exportedStructs(f.file) {
			previous := true
			for _, field := range spec.Fields.List {
				has := field.Doc != nil || field.Comment != nil
				if exported(field) && !has && !previous {
					t.Errorf("%s: an exported field without a comment", fset.Position(field.Pos()))
				}
				// One comment may serve the fields that follow it line by line.
				previous = has
			}
		}
	}
}

func exportedStructs(file *ast.File) []*ast.StructType {
	var out []*ast.StructType
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok || !ts.Name.IsExported() {
				continue
			}
			if st, ok := ts.Type.(*ast.StructType); ok {
				out = append(out, st)
			}
		}
	}
	return out
}

func exported(field *ast.Field) bool {
	return slices.ContainsFunc(field.Names, func(n *ast.Ident) bool { return n.IsExported() })
}

// The testing package in a binary brings flags and globals with it.
func TestNoTestingInProduction(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		if f.isTest() || f.path == "launcher/cloud/cloudtest/"+filepath.Base(f.path) {
			continue // cloudtest is a contract suite: it is made to be called from tests.
		}
		for _, imp := range f.file.Imports {
			if path := strings.Trim(imp.Path.Value, `"`); path == "testing" || strings.HasPrefix(path, "testing/") {
				t.Errorf("%s imports %s", f.path, path)
			}
		}
	}
}

// A limit that can be switched off is no limit.
func TestNoSuppressionOfLimits(t *testing.T) {
	limit := regexp.MustCompile(`//\s*nolint(:[\w,]*\b(funlen|cyclop|revive|gocyclo|gocognit)\b|\s|$)`)
	fset, files := tree(t)
	for _, f := range files {
		for _, group := range f.file.Comments {
			for _, c := range group.List {
				if limit.MatchString(c.Text) {
					t.Errorf("%s: %s suppresses a size limit", fset.Position(c.Pos()), c.Text)
				}
			}
		}
	}
}

// The scheduling goroutine must never wait for ours, and ours must stop with the scheduler: they start in one place.
func TestPluginStartsGoroutinesInOneFile(t *testing.T) {
	fset, files := tree(t)
	found := false
	for _, f := range files {
		if f.isTest() || f.dir() != "plugin" && !strings.HasPrefix(f.dir(), "plugin/") {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if startsGoroutine(n) {
				found = true
				if f.path != "plugin/run.go" {
					t.Errorf("%s starts a goroutine: only plugin/run.go may", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
	if !found {
		t.Error("no goroutine found in plugin/: this check looks at the wrong place")
	}
}

func startsGoroutine(n ast.Node) bool {
	if _, ok := n.(*ast.GoStmt); ok {
		return true
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (sel.Sel.Name == "Go" || sel.Sel.Name == "AfterFunc")
}

// ARCHITECTURE.md's arrows are imports that the code has, and the files that it sends a reader to exist.
func TestArchitectureIsTrue(t *testing.T) {
	text := fileOf(t, "ARCHITECTURE.md")
	_, files := tree(t)
	imports := map[string]map[string]bool{}
	for _, f := range files {
		if f.isTest() {
			continue
		}
		if imports[f.dir()] == nil {
			imports[f.dir()] = map[string]bool{}
		}
		for _, spec := range f.file.Imports {
			path := strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
			imports[f.dir()][path] = true
		}
	}
	_, block, found := strings.Cut(text, "```imports\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("ARCHITECTURE.md has no block of imports")
	}
	for line := range strings.Lines(block) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		for path := range strings.FieldsSeq(to) {
			if !imports[from][path] {
				t.Errorf("ARCHITECTURE.md: %s does not import %s", from, path)
			}
		}
	}
	named := regexp.MustCompile("`([a-z0-9_/]+/[a-z0-9_]+\\.[a-z]+)`").FindAllStringSubmatch(text, -1)
	for _, match := range named {
		if _, err := os.Stat(filepath.Join(moduleRoot(t), match[1])); err != nil {
			t.Errorf("ARCHITECTURE.md names a file that is not there: %v", err)
		}
	}
	if len(named) < 15 {
		t.Errorf("ARCHITECTURE.md names %d files", len(named))
	}
}

// The ways of the stranger's test end at functions that exist.
func TestStrangersWaysEnd(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| (?:`([A-Za-z]+)`)? *\\| [0-9]").FindAllStringSubmatch(docsPage(t, "lab/stranger.md"), -1)
	for _, row := range rows {
		text, err := os.ReadFile(filepath.Join(moduleRoot(t), row[1]))
		if err != nil {
			t.Errorf("docs/lab/stranger.md: %v", err)
			continue
		}
		declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type )` + regexp.QuoteMeta(row[2]) + `\b`)
		if row[2] != "" && !declared.Match(text) {
			t.Errorf("docs/lab/stranger.md: %s does not declare %s", row[1], row[2])
		}
	}
	if len(rows) != 10 {
		t.Errorf("docs/lab/stranger.md has %d ways, want 10", len(rows))
	}
}

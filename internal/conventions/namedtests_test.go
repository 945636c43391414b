package conventions_test

import (
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
	declared := map[string]bool{}
	_, files := tree(t)
	for _, f := range files {
		for _, d := range f.file.Decls {
			if function, ok := d.(*ast.FuncDecl); ok && f.isTest() && strings.HasPrefix(function.Name.Name, "Test") {
				declared[function.Name.Name] = true
			}
		}
	}
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

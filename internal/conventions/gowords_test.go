package conventions_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Comments and texts in the code are in the words that the documents use.
func TestCodeIsInPlainWords(t *testing.T) {
	fset, files := tree(t)
	packages := map[string]bool{}
	for _, f := range files {
		if f.isTest() || f.generated() {
			continue
		}
		packages[f.dir()] = true
		for _, found := range bannedInCode(fset, f) {
			t.Error(found)
		}
	}
	if len(packages) < 50 {
		t.Fatalf("found %d packages: this check looks at the wrong place", len(packages))
	}
}

// bannedInCode returns the banned words in the comments and the string literals of a file, each with its place and what
// to write instead. A term that is broken over two lines is at its first. Paths of imports are names of files.
func bannedInCode(fset *token.FileSet, f source) []string {
	words, instead := banned()
	var out []string
	find := func(text string, place func(offset int) token.Pos) {
		for _, at := range words.FindAllStringIndex(text, -1) {
			word := text[at[0]:at[1]]
			out = append(out, fmt.Sprintf("%s:%d: %q, write: %s", f.path, fset.Position(place(at[0])).Line, word, instead(word)))
		}
	}
	for _, group := range f.file.Comments {
		text, places := joined(group)
		find(text, func(offset int) token.Pos { return places[offset] })
	}
	ast.Inspect(f.file, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil {
			find(text, func(int) token.Pos { return literal.Pos() })
		}
		return true
	})
	return out
}

// joined returns the words of a comment with single spaces between them, and the place of each byte.
func joined(group *ast.CommentGroup) (string, []token.Pos) {
	var text strings.Builder
	var places []token.Pos
	for _, c := range group.List {
		for word := range strings.FieldsSeq(strings.TrimPrefix(c.Text, "//")) {
			if text.Len() > 0 {
				word = " " + word
			}
			text.WriteString(word)
			places = append(places, slices.Repeat([]token.Pos{c.Pos()}, len(word))...)
		}
	}
	return text.String(), places
}

func TestBannedWordsAreFoundInCode(t *testing.T) {
	const code = "package a\n\nimport _ \"a/lane\"\n\n// f is not told, all the\n// same.\nfunc f() string { // heir\n\treturn \"whom\" + `x\nnobody`\n}\n"
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "a.go", code, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	got := bannedInCode(fset, source{path: "a.go", file: file})
	words := bannedWords()
	want := []string{
		`a.go:5: "told", write: ` + words["tell|tells|told|telling"],
		`a.go:5: "all the same", write: ` + words["all the same|be it"],
		`a.go:7: "heir", write: ` + words["heir|heirs|heirless"],
		`a.go:8: "whom", write: ` + words["whom"],
		`a.go:8: "nobody", write: ` + words["nobody|somebody|whoever"],
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

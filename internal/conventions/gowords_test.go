package conventions_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dialect lists how many banned words the comments and string literals of a package have today. A number may only be
// lowered, and a package without banned words leaves the list.
func dialect() map[string]int {
	return map[string]int{
		"e2e/aws":       32,
		"e2e/aws/model": 5,
		"e2e/aws/wire":  3,
	}
}

// Comments and texts in the code are in the words that the documents use.
func TestCodeIsInPlainWords(t *testing.T) {
	fset, files := tree(t)
	counts, where := map[string]int{}, map[string][]string{}
	for _, f := range files {
		if f.isTest() || f.generated() {
			continue
		}
		dir, found := f.dir(), bannedInCode(fset, f)
		counts[dir] += len(found)
		where[dir] = append(where[dir], found...)
	}
	if len(counts) < 50 {
		t.Fatalf("found %d packages: this check looks at the wrong place", len(counts))
	}
	for _, c := range ratchet(counts, func(string) int { return 0 }, dialect()) {
		t.Errorf("banned words of package %s\n\t%s\n\tthe list: dialect in internal/conventions/gowords_test.go",
			c, strings.Join(where[c.name], "\n\t"))
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
	for _, most := range slices.Sorted(maps.Values(dialect())) {
		if most < 1 {
			t.Errorf("dialect lists a package with %d words: take it off", most)
		}
	}
}

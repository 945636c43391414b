package conventions_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README shows one picture. Each picture of docs/ is shown by a page, and is made by the test of the page in a browser, so that
// `make ui-browser SCREENSHOTS=docs` renews it.
func TestPicturesAreShownAndMade(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	picture := regexp.MustCompile(`!\[[^\]]+\]\(([^)]+)\)`)
	if shown := picture.FindAllStringSubmatch(read("README.md"), -1); len(shown) != 1 || shown[0][1] != "docs/ui.png" {
		t.Errorf("the README shows %q, want docs/ui.png alone", shown)
	}
	var shown []string
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages (%v)", len(pages), err)
	}
	for _, page := range pages {
		for _, m := range picture.FindAllStringSubmatch(read(strings.TrimPrefix(page, "../../")), -1) {
			shown = append(shown, m[1])
		}
	}
	there, err := filepath.Glob("../../docs/*.png")
	if err != nil || len(there) == 0 {
		t.Fatalf("%d pictures (%v)", len(there), err)
	}
	test := read("e2e/page/page_test.go")
	for _, path := range there {
		name := filepath.Base(path)
		if !slices.Contains(shown, name) {
			t.Errorf("no page of docs/ shows docs/%s", name)
		}
		if !strings.Contains(test, `"`+strings.TrimSuffix(name, ".png")+`"`) {
			t.Errorf("the test of e2e/page does not make docs/%s", name)
		}
	}
	for _, name := range shown {
		if !slices.Contains(there, "../../docs/"+name) {
			t.Errorf("a page of docs/ shows docs/%s, which is not there", name)
		}
	}
}

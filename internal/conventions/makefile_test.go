package conventions_test

import (
	"regexp"
	"testing"
)

// A comma within make's function or begins another argument, and the first one that is not empty is taken: a default with commas would lose all after the first.
func TestDefaultsOfTheMakefileAreWhole(t *testing.T) {
	text := fileOf(t, "Makefile")
	for _, cut := range regexp.MustCompile(`\$\(or \$\([A-Z_]+\),[^()]*,[^()]*\)`).FindAllString(text, -1) {
		t.Errorf("%s: only the first of these defaults is used; give them a variable", cut)
	}
}

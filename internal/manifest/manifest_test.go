package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/internal/manifest"
)

// bomb is a document with levels of lists that each name the one before ten times.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	text := strings.Repeat("y", 20_000)
	for name, c := range map[string]struct{ document, want string }{
		"no alias":           {"kind: Pod\nmetadata: {name: a}\n", ""},
		"a shared spec":      {"a: &a {b: c}\nlist:\n" + strings.Repeat("- {<<: *a, d: e}\n", 1000), ""},
		"a glob":             {"pattern: '*.yaml & more'\n", ""},
		"not YAML":           {"a: &a [\nb: *a", ""},
		"a small bomb":       {bomb(3), ""},
		"a bomb":             {bomb(9), "they repeat the 570 bytes of the document to more than"},
		"a bomb of text":     {"a: &a " + text + "\nb: [" + strings.Repeat("*a, ", 5000) + "*a]", "reading aliases"},
		"a bomb of keys":     {bomb(6) + "b: {? *a6 : 1}", "reading aliases"},
		"an endless value":   {"a: &a [*a]", "line 1: an alias is within the value that it names"},
		"thousands of names": {"a: &a {b: c}\nlist: [" + strings.Repeat("*a, ", 50_000) + "*a]", ""},
	} {
		err := manifest.Check([]byte(c.document))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

package catalogue_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/causes/catalogue"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write docs/causes.md")
	flag.Parse()
	os.Exit(m.Run())
}

const (
	page  = "../../../docs/causes.md"
	begin = "<!-- the catalogue -->\n\n"
)

func read(t *testing.T) []catalogue.Group {
	t.Helper()
	groups, err := catalogue.Read(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

// The page lists what is injected, and nothing else.
func TestPageListsTheCatalogue(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, tables, found := strings.Cut(string(text), begin)
	if !found {
		t.Fatalf("%s has no line %q", page, strings.TrimSpace(begin))
	}
	want := strings.TrimRight(catalogue.Page(read(t)), "\n") + "\n"
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(page, []byte(head+begin+want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if tables != want {
		t.Errorf("%s differs from the catalogue: go test ./e2e/causes/catalogue -rewrite writes it", page)
	}
}

// Each cause has a name of its own and can be read; a sentence is not longer than a reader's patience, an edit can be applied.
func TestCauses(t *testing.T) {
	seen := map[string]bool{}
	for c := range catalogue.All(read(t)) {
		if c.Name == "" || c.Says == "" || c.Means == "" {
			t.Errorf("%q: a cause has a name, a sentence and what it means", c.Name)
		}
		if seen[c.Name] {
			t.Errorf("%s: the name is used twice", c.Name)
		}
		seen[c.Name] = true
		if _, err := catalogue.Pattern(c.Says); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if n := len(c.Says); n > catalogue.MostBeforeStop {
			t.Errorf("%s: %d characters", c.Name, n)
		}
		if (c.Edit == "") != (c.Apply == nil) {
			t.Errorf("%s: an edit and how it is applied go together", c.Name)
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d causes, want 60 at least", len(seen))
	}
}

func TestPattern(t *testing.T) {
	for text, want := range map[string]bool{
		"limit cpu of 2 reached: 0 in use": true, "limit cpu of  reached: 0 in use": false, "limit cpu of 2; reached: 0 in use": false,
	} {
		p, err := catalogue.Pattern("limit cpu of {n} reached: {n} in use")
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MatchString(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

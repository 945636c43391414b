package input

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// texts are documents in every style, among them those that look as if they could be cut at the wrong place.
func texts() []string {
	return []string{
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    name: b\nspec:\n  containers:\n  - name: c\n",
		"# comment\napiVersion: v1 # one\nkind: \"Pod\"\n\nmetadata:\n    name: a\n\nspec: {containers: [{name: c}]}\n",
		"kind: List\nitems:\n- kind: Pod\n  metadata:\n    name: a\n- kind: Pod\n  metadata: {name: b}\n",
		"kind: List\nitems:\n  - kind: Pod\n    metadata:\n      name: a\n\n  # comment\n  -   kind: Pod\n      metadata: {name: b}\n",
		"kind: List\nitems: []\n",
		"kind: List\nitems:\n",
		"kind: List\nitems: [{kind: Pod}, {kind: Node}]\n",
		"metadata:\n  annotations:\n    text: |\n      name: x\n      spec:\n  name: a\nspec: |\n  kind: b\n  --- c\n\n  # d\nkind: Pod\n",
		"metadata: &m\n  name: a\nspec: *m\n",
		"metadata:\n  name: &n a\nspec: {x: *n}\n",
		"kind: Pod\nkind: Node\n",
		"text: 'it''s\n  two lines'\nkind: Pod\n",
		"text: \"a\\\n  b\"\nkind: Pod\n",
		"text: >-\n  a\n  b\nnext: 1\n",
		"1: a\nb: c\n", "a.b/c: d\n", "? a\n: b\n", "- a\n- b\n", "just text\n", "\tkind: Pod\n", "kind: Pod\n\tx: y\n",
		"a:\n- b\n-\n- c\nd:\n  - e\n", "a: !!str 1\nb: 0x10\nc: 1e3\nd: ~\ne: yes\nf: 0.1\n", "a:b\n", "a :\n  b\n",
		`{"kind": "Pod", "metadata": {"name": "a", "labels": {"x": "}\"{"}}, "n": [1, -2.5e3, true, null, "\\"]}`,
		"{kind: Pod, metadata: {name: a}}", "{}", "", "# nothing\n", "\xef\xbb\xbfkind: Pod\n", "a: b\r\nc:\r\n  d: e\r\n",
		"kind: Pod\n...\n", "%YAML 1.2\n---\nkind: Pod\n", " kind: Pod\n name: a\n", "a: b: c\n", "a: [\nb: 1\n", "a: \"x\nb: 1\"\n",
	}
}

// FuzzCut holds that a document that is cut into parts means the same as one that is read whole.
func FuzzCut(f *testing.F) {
	for _, text := range texts() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, doc := range documents([]byte(text)) {
			var want map[string]any
			if yaml.Unmarshal(doc, &want) != nil || want == nil {
				// Whatever cut does with it, it must not panic.
				if ps, err := cut(doc); err == nil {
					_, _ = together(ps)
				}
				continue
			}
			ps, err := cut(doc)
			if err != nil {
				t.Fatalf("%q: %v", doc, err)
			}
			got, err := together(ps)
			if err != nil {
				continue // Who reads the parts reads the whole then.
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-whole +parts):\n%s", doc, diff)
			}
		}
	})
}

// together reads the parts one by one, lists and mappings through their own parts.
func together(ps parts) (map[string]any, error) {
	out := map[string]any{}
	for _, p := range ps {
		var value any
		if err := p.into(&value); err != nil {
			return nil, fmt.Errorf("%s: %w", p.key, err)
		}
		// As sigs.k8s.io/yaml reads numbers.
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, err
		}
		out[p.key] = value
		if _, ok := value.(map[string]any); ok {
			if inner, ok := p.within(); ok {
				if out[p.key], err = together(inner); err != nil {
					return nil, err
				}
			}
		}
		if list, ok := value.([]any); ok {
			elements, err := p.elements()
			if err != nil || len(elements) != len(list) {
				return nil, fmt.Errorf("%s: %d elements instead of %d: %w", p.key, len(elements), len(list), err)
			}
		}
	}
	return out, nil
}

func TestDocuments(t *testing.T) {
	for text, want := range map[string]int{
		"":                               0,
		"---\n---\n":                     0,
		"a: 1\n---\nb: 2\n":              2,
		"---\na: 1\n--- # next\nb: 2":    2,
		"a: |\n  ---\n  x\n---\nb: 2":    2,
		"a: 1\n...\n# only a comment\n":  1,
		"a: 1\r\n---\r\nb: 2\r\n":        2,
		"--- {a: 1}\n---\n{b: 2}\n":      2,
		"a: 1\n----\n":                   1,
		"# a\n\n---\n# b\n---\nkind: c ": 1,
	} {
		if got := documents([]byte(text)); len(got) != want {
			t.Errorf("%q: %d documents, want %d: %q", text, len(got), want, got)
		}
	}
}

// What is cut at the right places need not be parsed as a whole: the fast way is taken for what kubectl and people write.
func TestFastWay(t *testing.T) {
	for i, text := range texts()[:8] {
		if _, ok := cutYAML([]byte(text)); !ok {
			t.Errorf("text %d is not cut: %q", i, text)
		}
	}
	for _, list := range texts()[2:3] {
		ps, _ := cutYAML([]byte(list))
		items, _ := ps.get("items")
		if got, ok := items.blockElements(); !ok || len(got) != 2 || string(got[1]) != "kind: Pod\nmetadata: {name: b}\n" {
			t.Errorf("items of %q: %q", list, got)
		}
	}
}

func TestBadJSON(t *testing.T) {
	for _, text := range []string{`{`, `{"a"`, `{"a":`, `{"a": [`, `{"a": "`, `{"a" 1}`, `{1: 2}`, `{"a": {"b": ]}`, `"`} {
		if ps, _, err := cutJSON([]byte(text)); err == nil {
			if _, err := together(ps); err == nil {
				t.Errorf("%s was read: %v", text, ps)
			}
		}
	}
	for _, text := range []string{``, `[`, `[1`, `[}`, `{}`, `["a]`} {
		if got, err := cutArray([]byte(text)); err == nil {
			t.Errorf("%s was read: %q", text, got)
		}
	}
}

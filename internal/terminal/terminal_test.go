package terminal_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/internal/terminal"
)

func written(t *testing.T, of func(io.Writer) *terminal.Writer, pieces ...string) string {
	t.Helper()
	var out strings.Builder
	w := of(&out)
	for _, p := range pieces {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("%d of %d bytes, error %v", n, len(p), err)
		}
	}
	return out.String()
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":         "plain\ttext\n",
		"größe 節点 \U0001f600":   "größe 節点 \U0001f600",
		"\x1b[31mred\x1b[0m":    `\u001b[31mred\u001b[0m`,
		"a\rb\x07\x7f\x00":      `a\u000db\u0007\u007f\u0000`,
		"\u009b31m":             `\u009b31m`,
		"\x9b31m":               `\x9b31m`,
		"\u202egnp.\u2066":      `\u202egnp.\u2066`,
		"\U000e0041":            `\udb40\udc41`,
		"not \xe7\xaf a letter": `not \xe7\xaf a letter`,
	} {
		if got := written(t, terminal.Text, in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := written(t, terminal.Text, "gr\xc3", "\xb6\xc3\x9fe\x1b", "[2J"); got != `größe\u001b[2J` {
		t.Errorf("in pieces: %s", got)
	}
}

// JSON and YAML mean the same after they were quoted.
func TestData(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		write  func(any) ([]byte, error)
		decode func([]byte, any) error
	}{
		"json": {"a\x1b[31m\u009b\x7f\u202e\u200d\r\n\tb", json.Marshal, json.Unmarshal},
		"yaml": {"a\x1b[31m\u202e\u200d\r\n\tb", yaml.Marshal, func(in []byte, to any) error { return yaml.Unmarshal(in, to) }},
	} {
		value := map[string]string{"name": c.text, "節点": "\U0001f600"}
		in, err := c.write(value)
		if err != nil {
			t.Fatal(err)
		}
		got := written(t, terminal.Data, string(in))
		if strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("%s: %q", name, got)
		}
		back := map[string]string{}
		if err := c.decode([]byte(got), &back); err != nil || back["name"] != value["name"] || back["節点"] != value["節点"] {
			t.Errorf("%s: %q is read as %q, error %v", name, got, back, err)
		}
	}
	for _, crlf := range []string{"a: 1\r\nb: 2\r\n"} {
		if got := written(t, terminal.Data, crlf); got != crlf {
			t.Errorf("%q, want %q", got, crlf)
		}
	}
}

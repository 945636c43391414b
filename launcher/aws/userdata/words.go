package userdata

import (
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// bootstrapPath is the script of AL2's AMIs that joins the cluster.
const bootstrapPath = "/etc/eks/bootstrap.sh"

// words splits a command line at its spaces as systemd does, in whose unit files kubelet flags are (systemd.service, "Command lines"): quotes keep spaces and are
// taken off. A backslash stays, and what contains one is no label.
func words(line string) []string {
	var (
		out   []string
		word  strings.Builder
		quote rune
		begun bool
	)
	end := func() {
		if begun {
			out = append(out, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote == 0 && unicode.IsSpace(r):
			end()
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return out
}

// bootstrapped returns the value of --kubelet-extra-args in a script's first plain call of bootstrap.sh, and whether there is such a call. A call in a
// condition, a loop, a list or a function is none, and a value that the shell would expand is empty.
func bootstrapped(script string) (args string, called bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return "", false
	}
	for _, statement := range file.Stmts {
		call, ok := statement.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || literal(call.Args[0]) != bootstrapPath {
			continue
		}
		for i, word := range call.Args[:len(call.Args)-1] {
			if literal(word) == "--kubelet-extra-args" {
				args = literal(call.Args[i+1])
			}
		}
		return args, true
	}
	return "", false
}

// literal returns a word of a shell without its quotes; empty if the shell would change it.
func literal(word *syntax.Word) string {
	var out strings.Builder
	for _, part := range word.Parts {
		text, ok := literalPart(part)
		if !ok {
			return ""
		}
		out.WriteString(text)
	}
	return out.String()
}

func literalPart(part syntax.WordPart) (string, bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		return p.Value, !strings.ContainsAny(p.Value, `\*?[{~`)
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	case *syntax.DblQuoted:
		var text strings.Builder
		for _, inner := range p.Parts {
			lit, ok := inner.(*syntax.Lit)
			if !ok || strings.Contains(lit.Value, `\`) {
				return "", false
			}
			text.WriteString(lit.Value)
		}
		return text.String(), !p.Dollar
	}
	return "", false
}

package commands_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// repository is the root, from here.
const repository = "../.."

// command is one that the documentation shows.
type command struct {
	// file is the document's path below the root.
	file string
	// text is the command, with all its lines.
	text string
}

var (
	fence   = regexp.MustCompile("(?ms)^( *)```(\\w*)\n(.*?)^ *```")
	heredoc = regexp.MustCompile(`<<-?['"]?(\w+)['"]?`)
	inline  = regexp.MustCompile("`((?:kubectl (?:get|version)|bin/slipway|make) ?[^`]*)`")
)

// shells are the languages of blocks that show commands; a block without one shows what a command prints, or a drawing.
func shells() []string { return []string{"sh", "bash", "shell", "console"} }

// documents are all pages for users and contributors.
func documents(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(repository + "/docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages in docs/, %v", len(pages), err)
	}
	return append(pages, repository+"/README.md", repository+"/CONTRIBUTING.md")
}

// commands are those of all fenced blocks, in the order in which they stand.
func commands(t *testing.T) []command {
	t.Helper()
	var out []command
	for _, page := range documents(t) {
		text, name := document(t, page)
		for _, match := range fence.FindAllStringSubmatch(text, -1) {
			indent, language, block := match[1], match[2], match[3]
			if !slices.Contains(shells(), language) {
				continue
			}
			for _, text := range split(block, indent) {
				out = append(out, command{file: name, text: text})
			}
		}
	}
	return out
}

// mentioned are the commands within a sentence or a table that are whole: no capital letters stand for something else in them.
func mentioned(t *testing.T) []command {
	t.Helper()
	placeholder := regexp.MustCompile(`\b(NAME|NODE|NAMESPACE|FILES|URL|ID|OLD_MANIFESTS)\b|\.\.\.`)
	var out []command
	for _, page := range documents(t) {
		text, name := document(t, page)
		for _, match := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if placeholder.MatchString(match[1]) {
				continue
			}
			c := command{file: name, text: strings.ReplaceAll(match[1], "\n", " ")}
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

func document(t *testing.T, path string) (text, name string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), strings.TrimPrefix(path, repository+"/")
}

// split cuts a block into commands: continued lines, here-documents, open brackets and pipes belong together. Comments are left out.
func split(block, indent string) []string {
	var out []string
	var current strings.Builder
	end := ""
	for line := range strings.Lines(block) {
		line = strings.TrimRight(strings.TrimPrefix(line, indent), "\n")
		if current.Len() == 0 && (strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#")) {
			continue
		}
		current.WriteString(line + "\n")
		switch {
		case end != "":
			if strings.TrimSpace(line) != end {
				continue
			}
			end = ""
		case heredoc.MatchString(line):
			end = heredoc.FindStringSubmatch(line)[1]
			continue
		case strings.HasSuffix(line, `\`), strings.HasSuffix(line, "|"), open(current.String()):
			continue
		}
		out = append(out, strings.TrimRight(current.String(), "\n"))
		current.Reset()
	}
	if current.Len() > 0 {
		out = append(out, strings.TrimRight(current.String(), "\n"))
	}
	return out
}

var (
	loop     = regexp.MustCompile(`(?:^|;|\s)do(?:\s|$)`)
	loopEnds = regexp.MustCompile(`(?:^|;|\s)done(?:\s|;|\)|$)`)
)

// open tells whether a quote, a bracket or a loop is not closed yet. Comments do not count.
func open(text string) bool {
	quote, before, depth, comment := rune(0), ' ', 0, false
	for _, r := range text {
		switch {
		case comment:
			comment = r != '\n'
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '#' && unicode.IsSpace(before):
			comment = true
		case r == '\'' || r == '"':
			quote = r
		case r == '(' || r == '{':
			depth++
		case r == ')' || r == '}':
			depth--
		}
		before = r
	}
	return quote != 0 || depth > 0 || len(loop.FindAllString(text, -1)) > len(loopEnds.FindAllString(text, -1))
}

func TestSplit(t *testing.T) {
	t.Parallel()
	block := "  # a comment\n  a \\\n    --b   # and why\n\n  cat <<E\n  # text\n  E\n  c |\n    jq '.x |\n      .y'\n  $(for x in 1; do\n    y; done)\n  d & # kind's\n  for x in 1; do\n    e\n  done\n  f\n"
	want := []string{"a \\\n  --b   # and why", "cat <<E\n# text\nE", "c |\n  jq '.x |\n    .y'", "$(for x in 1; do\n  y; done)", "d & # kind's", "for x in 1; do\n  e\ndone", "f"}
	if got := split(block, "  "); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

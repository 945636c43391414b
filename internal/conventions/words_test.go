package conventions_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bannedWords are those of CONTRIBUTING.md's table, section Words, that no text for users needs, with what to write instead. A word that has an
// ordinary meaning as well (room, goes, who) is not among them: the list has no false positives.
func bannedWords() map[string]string {
	return map[string]string{
		"tell|tells|told|telling":  "report, return, log, list",
		"hear|hears|heard":         "receive, notice",
		"nobody|somebody|whoever":  "no pod, a user, the process that",
		"whom":                     "which, that; name the pod or the node again",
		"anew":                     "again, from scratch",
		"dear|dearer|dearest":      "expensive, costs more",
		"mend|mends|mended":        "fix",
		"heir|heirs|heirless":      "replacement pod",
		"bequest|bequests":         "reservation",
		"successor|successors":     "replacement pod; the next process",
		"kept room|kept slots?":    "reservation",
		"lane|lanes":               "bin type",
		"door|doors":               "eligibility class",
		"wish|wishes|wished":       "soft constraint, preference",
		"companion|companions":     "pods of a co-located group",
		"company":                  "co-located group",
		"all the same|be it":       "as well, still; or",
		"for the sake of":          "for, because of",
		"vanish|vanishes|vanished": "terminates, is deleted",
	}
}

// banned is one expression for all banned words, and what to write instead of each.
func banned() (*regexp.Regexp, func(string) string) {
	words := bannedWords()
	lists := slices.Sorted(maps.Keys(words))
	// Names in capitals, such as LANES of the Makefile, are no words of a sentence.
	var forms []string
	for list := range strings.SplitSeq(strings.Join(lists, "|"), "|") {
		forms = append(forms, "["+strings.ToUpper(list[:1])+list[:1]+"]"+list[1:])
	}
	instead := func(word string) string {
		for list, say := range words {
			if regexp.MustCompile("^(?i:" + list + ")$").MatchString(word) {
				return say
			}
		}
		return ""
	}
	return regexp.MustCompile(`\b(?:` + strings.Join(forms, "|") + `)\b`), instead
}

// prose returns the text of a Markdown page that people read as sentences, line by line: code, quoted messages of programs and targets of
// links are blanked, and so is the section of that heading.
func prose(page, without string) []string {
	var out []string
	spans := regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)")
	fenced, skipped := false, false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
			line = ""
		case !fenced && strings.HasPrefix(line, "## "):
			skipped = without != "" && strings.TrimSpace(line) == "## "+without
		}
		if fenced || skipped || strings.HasPrefix(line, "    ") && !strings.HasPrefix(strings.TrimSpace(line), "-") {
			line = ""
		}
		out = append(out, spans.ReplaceAllString(line, ""))
	}
	return out
}

// texts returns what users read, by file, line by line: pages without code, the comments of the charts' values, and the Makefile's help.
func texts(t *testing.T) map[string][]string {
	t.Helper()
	root := moduleRoot(t)
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	out := map[string][]string{
		"CONTRIBUTING.md": prose(read("CONTRIBUTING.md"), "Words"),
		"Makefile":        after(read("Makefile"), "## "),
	}
	pages := []string{"README.md", "ARCHITECTURE.md"}
	for pattern, least := range map[string]int{"docs/*.md": 15, "manifests/charts/*/values.yaml": 1} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) < least {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, path := range found {
			path, _ = filepath.Rel(root, path)
			if path = filepath.ToSlash(path); strings.HasSuffix(path, ".md") {
				pages = append(pages, path)
			} else {
				out[path] = after(read(path), "# ")
			}
		}
	}
	for _, path := range pages {
		out[path] = prose(read(path), "")
	}
	return out
}

// after returns what follows a mark in each line.
func after(text, mark string) []string {
	var out []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, mark)
		out = append(out, rest)
	}
	return out
}

// findBanned returns the banned words of some lines, each with its line and what to write instead.
func findBanned(lines []string) []string {
	words, instead := banned()
	var out []string
	for n, line := range lines {
		for _, word := range words.FindAllString(line, -1) {
			out = append(out, fmt.Sprintf("%d: %q, write: %s", n+1, word, instead(word)))
		}
	}
	return out
}

// Texts for users have no words of a private dialect.
func TestTextsAreInPlainWords(t *testing.T) {
	all := texts(t)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		for _, found := range findBanned(all[path]) {
			t.Errorf("%s:%s", path, found)
		}
	}
}

// Each banned word is in CONTRIBUTING.md's table, where a contributor finds what to write instead. The table has at most 40 rows, since a longer
// one is not read, and README.md at most 90 lines.
func TestGlossaryHasTheBannedWords(t *testing.T) {
	read := func(name string) string {
		return fileOf(t, name)
	}
	_, words, _ := strings.Cut(read("CONTRIBUTING.md"), "\n## Words\n")
	table, _, _ := strings.Cut(words, "\nA sentence has one fact.")
	for list := range bannedWords() {
		first, _, _ := strings.Cut(list, "|")
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(first)).MatchString(table) {
			t.Errorf("CONTRIBUTING.md, section Words, has no row for %q", first)
		}
	}
	if rows := strings.Count(table, "\n| ") - 1; rows < 20 || rows > 40 {
		t.Errorf("the glossary has %d rows, want 20 to 40", rows)
	}
	if lines := strings.Count(read("README.md"), "\n"); lines > 90 {
		t.Errorf("README.md has %d lines, want 90 at most", lines)
	}
}

func TestBannedWordsAreFound(t *testing.T) {
	const page = "# Told\n`told`\n```\nheirs\n```\n[a](nobody.md) LANES=2\nWhom, dearer.\n## Words\ntold\n## More\nkept slots\n"
	got := findBanned(prose(page, "Words"))
	want := []string{
		`1: "Told", write: report, return, log, list`, `7: "Whom", write: which, that; name the pod or the node again`,
		`7: "dearer", write: expensive, costs more`, `11: "kept slots", write: reservation`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

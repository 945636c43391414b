package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are README.md, CONTRIBUTING.md, ARCHITECTURE.md and all of docs/, the lab notebook included, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths := []string{"../../README.md", "../../CONTRIBUTING.md", "../../ARCHITECTURE.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/lab/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("pages %s: %v, %v", pattern, found, err)
		}
		paths = append(paths, found...)
	}
	out := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(text)
	}
	return out
}

// Each command line of slipway that the documentation shows is one that this program understands, flags included.
func TestDocumentedCommandsExist(t *testing.T) {
	// A command up to the shell's next word of its own, or the end of the code.
	shown := regexp.MustCompile("(?m)(?:^|[ `|(])(?:bin/)?slipway ((?:simulate|explain|status|top|bill|convert|learned)[^`|>#&\n;]*)")
	quoted := regexp.MustCompile(`"[^"]*"|'[^']*'`)
	found := map[string]bool{}
	for path, text := range pages(t) {
		for _, match := range shown.FindAllStringSubmatch(text, -1) {
			line := quoted.ReplaceAllString(match[1], "value")
			words := strings.Fields(line)
			if words[len(words)-1] == "-f" {
				words = append(words, "FILES")
			}
			cmd, args, err := newCommand().Find(words)
			if err == nil {
				cmd.Flags().AddFlagSet(cmd.InheritedFlags())
				err = cmd.ParseFlags(args)
			}
			if err != nil {
				t.Errorf("%s: slipway %s: %v", path, match[1], err)
			}
			found[cmd.Name()] = true
		}
	}
	for _, name := range []string{"simulate", "pod", "status", "top", "bill", "convert", "learned"} {
		if !found[name] {
			t.Errorf("no page shows %s: %v", name, slices.Sorted(maps.Keys(found)))
		}
	}
}

// Each target of make that the documentation shows is one of the Makefile's.
func TestDocumentedTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?m)(?:^ *|`|&& )make((?: [a-z][a-z0-9-]*)+)")
	for path, text := range pages(t) {
		for _, match := range shown.FindAllStringSubmatch(text, -1) {
			for target := range strings.FieldsSeq(match[1]) {
				if !strings.Contains(string(makefile), "\n"+target+":") {
					t.Errorf("%s: make %s: there is no such target", path, target)
				}
			}
		}
	}
}

// Each link of the documentation leads to a file, and to a heading of it.
func TestDocumentedLinksLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for path, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(match[1], "#")
			target := filepath.Join(filepath.Dir(path), file)
			if file == "" {
				target = path
			}
			content, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s: link %s: %v", path, match[1], err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(string(content)), anchor) {
				t.Errorf("%s: link %s: there is no such heading", path, match[1])
			}
		}
	}
}

// anchors are those that GitHub gives to headings.
func anchors(text string) []string {
	var out []string
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			out = append(out, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-"))
		}
	}
	return out
}

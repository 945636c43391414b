package conventions_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// longestSubject is what `git log --oneline` shows of a subject in 80 columns, and what git's own documentation advises.
	longestSubject = 72
	// subjectsSince is the last commit before the rule: the subjects of older ones are as they are.
	subjectsSince = "a519310"
)

// A subject that is too long for a list of commits is not read.
func TestSubjectsOfCommitsAreShort(t *testing.T) {
	log, err := commitsSince(t, subjectsSince)
	if err != nil {
		// A source archive and a shallow clone have no history: there is nothing to check.
		t.Skipf("the subjects of commits were NOT checked: %v", err)
	}
	for _, line := range longSubjects(log) {
		t.Errorf("%s\n\tthe subject of a commit has at most %d characters; the body says the rest", line, longestSubject)
	}
}

// commitsSince returns a line for each commit that is no merge: its abbreviated hash, a space and its subject.
func commitsSince(t *testing.T, commit string) (string, error) {
	t.Helper()
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = moduleRoot(t)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
		return string(out), nil
	}
	if _, err := git("merge-base", "--is-ancestor", commit, "HEAD"); err != nil {
		return "", err
	}
	return git("log", "--no-merges", "--format=%h %s", commit+"..HEAD")
}

// longSubjects returns the lines of commitsSince with subjects over the limit, with their lengths.
func longSubjects(log string) []string {
	var out []string
	for line := range strings.Lines(log) {
		hash, subject, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n := utf8.RuneCountInString(subject); n > longestSubject {
			out = append(out, fmt.Sprintf("%s has %d characters: %s", hash, n, subject))
		}
	}
	return out
}

func TestLongSubjectsAreFound(t *testing.T) {
	fits, over := strings.Repeat("ü", longestSubject), strings.Repeat("x", longestSubject+1)
	got := longSubjects("aaaa " + fits + "\nbbbb " + over + "\ncccc \n")
	if want := []string{"bbbb has 73 characters: " + over}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := commitsSince(t, "0000000000"); err == nil {
		t.Error("a commit that is not there is not reported")
	}
}

package conventions_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A comma within make's function or begins another argument, and the first one that is not empty is taken: a default with commas would lose all after the first.
func TestDefaultsOfTheMakefileAreWhole(t *testing.T) {
	text := fileOf(t, "Makefile")
	for _, cut := range regexp.MustCompile(`\$\(or \$\([A-Z_]+\),[^()]*,[^()]*\)`).FindAllString(text, -1) {
		t.Errorf("%s: only the first of these defaults is used; give them a variable", cut)
	}
}

// What signs a release runs in a folder of its own: the key's file, named from where make was called, is named in full.
func TestKeyOfTheReleaseIsNamedInFull(t *testing.T) {
	root := moduleRoot(t)
	for key, want := range map[string]string{"cosign.key": filepath.Join(root, "cosign.key"), "/keys/cosign.key": "/keys/cosign.key", "": ""} {
		for how, variables := range map[string]struct{ environment, arguments []string }{
			"environment": {environment: []string{"COSIGN_KEY=" + key}},
			"argument":    {arguments: []string{"COSIGN_KEY=" + key}},
		} {
			dry := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "--directory", root, "release", "VERSION=0.1.0"}, variables.arguments...)...)
			dry.Env = append(os.Environ(), variables.environment...)
			out, err := dry.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if signs := "internal/release/attest && COSIGN_KEY='" + want + "' go run . "; !strings.Contains(string(out), signs) {
				t.Errorf("COSIGN_KEY=%s as %s: no %q in\n%s", key, how, signs, out)
			}
		}
	}
}

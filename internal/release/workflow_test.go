package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what the tests read of a workflow of GitHub Actions.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]job    `json:"jobs"`
}

type job struct {
	Permissions    map[string]string `json:"permissions"`
	TimeoutMinutes int               `json:"timeout-minutes"`
	Uses           string            `json:"uses"`
	Steps          []step            `json:"steps"`
}

// step is an action or a script.
type step struct {
	Uses string `json:"uses"`
	Run  string `json:"run"`
}

// A tag of an action can be moved to other code: a commit cannot. No job has more permissions than those that are listed here, and a step calls
// only targets that the Makefile has.
func TestWorkflowsArePinnedAndConfined(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("../../.github/workflows/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d workflows, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if !strings.Contains(string(text), "\npermissions: {}\n") {
			t.Errorf("%s: permissions: {} is expected for all jobs that list none", path)
		}
		for name, job := range w.Jobs {
			isConfined(t, name, job)
			for _, s := range job.Steps {
				isPinned(t, s, string(makefile))
			}
		}
	}
}

func isConfined(t *testing.T, name string, j job) {
	t.Helper()
	allowed := map[string]map[string]string{"release": {"contents": "write", "packages": "write", "id-token": "write"}}
	for scope, access := range j.Permissions {
		if allowed[name][scope] != access {
			t.Errorf("job %s may %s %s", name, access, scope)
		}
	}
	if j.Permissions == nil || j.TimeoutMinutes == 0 || j.Uses != "" || len(j.Steps) == 0 {
		t.Errorf("job %s needs permissions, a timeout and steps of its own", name)
	}
}

func isPinned(t *testing.T, s step, makefile string) {
	t.Helper()
	if pinned := regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`); s.Uses != "" && !pinned.MatchString(s.Uses) {
		t.Errorf("action %s: OWNER/NAME@COMMIT is expected", s.Uses)
	}
	for _, call := range regexp.MustCompile(`\bmake +([a-z0-9-]+)`).FindAllStringSubmatch(s.Run, -1) {
		if !strings.Contains(makefile, "\n"+call[1]+": ") {
			t.Errorf("the Makefile has no target %s", call[1])
		}
	}
	// Text of an event in a script is a way to run commands: it is given by the environment.
	if strings.Contains(s.Run, "${{") {
		t.Errorf("an expression in the script %q", s.Run)
	}
}

// What SECURITY.md says of the identity that signs is the workflow that signs, and the release signs with it.
func TestReleaseWorkflowSigns(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	job, found := w.Jobs["release"]
	if !found || !slices.ContainsFunc(job.Steps, func(s step) bool {
		return strings.HasPrefix(s.Run, "make release ") && strings.Contains(s.Run, "SIGN=keyless") && strings.Contains(s.Run, "PUSH=true")
	}) {
		t.Error("no step makes a signed release and pushes it")
	}
	security, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(security), source+"/.github/workflows/release.yaml@refs/tags/v") {
		t.Error("SECURITY.md does not name the identity of the workflow")
	}
}

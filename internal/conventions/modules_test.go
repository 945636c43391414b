package conventions_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// required returns a module file's versions of modules from Kubernetes, including those of replacements.
func required(t *testing.T, name string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", name)
	cmd.Dir = moduleRoot(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	type version struct{ Path, Version string }
	var file struct {
		Require []version
		Replace []struct{ Old, New version }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	versions := map[string]string{}
	for _, r := range file.Replace {
		file.Require = append(file.Require, version{r.Old.Path, r.New.Path + " " + r.New.Version})
	}
	for _, v := range file.Require {
		if strings.HasPrefix(v.Path, "k8s.io/") || strings.HasPrefix(v.Path, "sigs.k8s.io/") {
			versions[v.Path] = v.Version
		}
	}
	return versions
}

// What e2e/kind/kind.mod builds for the end-to-end tests on kind is of the same Kubernetes as slipway itself.
func TestKindIsOfTheSameKubernetes(t *testing.T) {
	ours, kinds := required(t, "go.mod"), required(t, "e2e/kind/kind.mod")
	if ours["k8s.io/kubernetes"] == "" || kinds["k8s.io/kubernetes"] == "" {
		t.Fatal("go.mod or e2e/kind/kind.mod does not require k8s.io/kubernetes")
	}
	for path, version := range ours {
		if other, both := kinds[path]; both && other != version {
			t.Errorf("e2e/kind/kind.mod has %s %s, want %s as in go.mod", path, other, version)
		}
	}
}

// Karpenter's suites that run against slipway are of the version whose API slipway has.
func TestKarpentersSuitesAreOfItsVersion(t *testing.T) {
	const karpenter = "sigs.k8s.io/karpenter"
	ours, suites := required(t, "go.mod")[karpenter], required(t, "e2e/karpentersuite/suites.mod")[karpenter]
	if ours == "" || ours != suites {
		t.Errorf("e2e/karpentersuite/suites.mod has %s %q, want %q as in go.mod", karpenter, suites, ours)
	}
}

// Karpenter's controller that runs on the sandbox's AWS is of the version whose API slipway has.
func TestKarpentersControllerIsOfItsVersion(t *testing.T) {
	const karpenter = "sigs.k8s.io/karpenter"
	ours, controllers := required(t, "go.mod")[karpenter], required(t, "e2e/karpenter/karpenter.mod")[karpenter]
	if ours == "" || ours != controllers {
		t.Errorf("e2e/karpenter/karpenter.mod has %s %q, want %q as in go.mod", karpenter, controllers, ours)
	}
}

// A release is built, signed and checked with one version of Go: the toolchain line of go.mod.
func TestOneToolchain(t *testing.T) {
	line := regexp.MustCompile(`(?m)^toolchain (go1\.\d+\.\d+)$`)
	first := ""
	for _, name := range []string{"go.mod", "go.release.mod", "internal/release/attest/go.mod", "e2e/karpentersuite/suites.mod", "e2e/karpenter/karpenter.mod"} {
		text := fileOf(t, name)
		found := line.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no toolchain line", name)
		}
		if first == "" {
			first = found[1]
		}
		if found[1] != first {
			t.Errorf("%s has toolchain %s, want %s as in go.mod", name, found[1], first)
		}
	}
}

package licenses_test

import (
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/internal/release/licenses"
)

// module writes files into a folder of their own, and returns it.
func module(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A linked package may have a license of its own, which counts; that of a package that is not linked does not.
func TestTextsOfLinkedPackagesAreCollected(t *testing.T) {
	root := module(t, "LICENSE.txt", "NOTICE", "license.go", "README.md", "internal/xxhash/LICENSE", "internal/xxhash/hash.go", "unused/LICENSE")
	got, err := licenses.Collect([]licenses.Source{{
		Name: "example.com/m@v1.0.0", Root: root, Packages: []string{root, filepath.Join(root, "internal", "xxhash")},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"example.com/m@v1.0.0/LICENSE.txt", "example.com/m@v1.0.0/NOTICE", "example.com/m@v1.0.0/internal/xxhash/LICENSE"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A module without a text fails the build, unless it is listed with a reason.
func TestMissingLicenseIsAnError(t *testing.T) {
	sources := []licenses.Source{{Name: "example.com/m@v1.0.0", Root: module(t, "m.go")}}
	if _, err := licenses.Collect(sources, nil); err == nil || !strings.Contains(err.Error(), "example.com/m@v1.0.0") {
		t.Errorf("%v, want an error that names the module", err)
	}
	if _, err := licenses.Collect(sources, map[string]string{"example.com/m": "in the public domain, as its README says"}); err != nil {
		t.Error(err)
	}
}

// All modules that a release links have a text.
func TestLinkedModulesHaveTexts(t *testing.T) {
	for _, c := range [][3]string{{"slipway-launcher", "linux", "arm64"}, {"slipway-scheduler", "linux", "amd64"}, {"slipway", "darwin", "arm64"}} {
		sources, err := licenses.Linked(t.Context(), "github.com/slipway-k8s/slipway/cmd/"+c[0], c[1], c[2])
		if err != nil {
			t.Fatal(err)
		}
		texts, err := licenses.Collect(sources, licenses.Exceptions())
		if err != nil {
			t.Errorf("%s: %v", c, err)
		}
		if len(sources) < 50 || len(texts) < len(sources) {
			t.Errorf("%s: %d texts of %d modules", c, len(texts), len(sources))
		}
	}
}

// A binary's build info says what it links: each module in it needs a text.
func TestCheckReadsBuildInfo(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "example.com/main/cmd/x", Main: debug.Module{Path: "example.com/main", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.0.0"},
			{Path: "example.com/b", Version: "v0.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v2.0.0"}},
		},
	}
	texts := licenses.Texts{
		"std@go1.26.8/LICENSE": nil, "example.com/main/LICENSE": nil, "example.com/a@v1.0.0/internal/x/LICENSE": nil, "example.com/fork@v2.0.0/NOTICE": nil,
	}
	if err := texts.Check(info, nil); err != nil {
		t.Error(err)
	}
	for name := range texts {
		others := maps.Clone(texts)
		delete(others, name)
		module, _, _ := strings.Cut(strings.TrimSuffix(name, "/LICENSE"), "@")
		if err := others.Check(info, nil); err == nil || !strings.Contains(err.Error(), module) {
			t.Errorf("without %s: %v", name, err)
		}
		if err := others.Check(info, map[string]string{module: "in the public domain"}); err != nil {
			t.Errorf("%s with an exception: %v", module, err)
		}
	}
}

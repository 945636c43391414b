package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The SBOM of a program names the program, Go and each linked module, with checksums and the license texts beside it.
func hasSBOM(t *testing.T, binary []byte) {
	t.Helper()
	r := released(t, folder(t, binary, "registry.example/slipway"), nil)
	text := contents(t, r.folder)["slipway_linux_amd64.cdx.json"]
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(strings.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Name != "slipway" || c.Version != "1.2.3" || !slices.Contains(*c.Properties, cdx.Property{Name: "slipway:go", Value: info.GoVersion}) {
		t.Errorf("component %+v", c)
	}
	if bom.SpecVersion != cdx.SpecVersion1_6 || bom.Metadata.Timestamp != "" || !strings.HasPrefix(bom.SerialNumber, "urn:uuid:") {
		t.Errorf("SBOM %s of %q, serial number %s", bom.SpecVersion, bom.Metadata.Timestamp, bom.SerialNumber)
	}
	hasComponents(t, *bom.Components, info)
}

// hasComponents holds the components of an SBOM against the build info of its program.
func hasComponents(t *testing.T, components []cdx.Component, info *debug.BuildInfo) {
	t.Helper()
	found := map[string]cdx.Component{}
	for _, c := range components {
		found[c.Name] = c
	}
	if len(info.Deps) < 10 || len(found) != len(info.Deps)+1 {
		t.Errorf("%d components of %d modules and Go", len(found), len(info.Deps))
	}
	for _, d := range info.Deps {
		if c := found[d.Path]; c.Version != d.Version || c.Hashes == nil || c.PackageURL != "pkg:golang/"+d.Path+"@"+d.Version+"?type=module" {
			t.Errorf("component %+v of module %s %s", c, d.Path, d.Version)
		}
	}
	if std := found["std"]; "go"+std.Version != info.GoVersion {
		t.Errorf("Go's component is of %s, want %s", std.Version, info.GoVersion)
	}
	if texts := found["github.com/CycloneDX/cyclonedx-go"].ExternalReferences; texts == nil || (*texts)[0].URL != license {
		t.Errorf("license texts %v, want %s", texts, license)
	}
}

// The provenance names what was built, from which commit, by what, and with which Go.
func hasProvenance(t *testing.T, binary []byte) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	r := released(t, folder(t, binary, "registry.example/slipway"), nil)
	type descriptor struct {
		Name, URI string
		Digest    map[string]string
	}
	var s struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []descriptor
		Predicate     struct {
			BuildDefinition struct {
				ExternalParameters, InternalParameters map[string]string
				ResolvedDependencies                   []descriptor
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	if err := json.Unmarshal([]byte(contents(t, r.folder)[provenanceFile]), &s); err != nil {
		t.Fatal(err)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != provenanceType || s.Predicate.RunDetails.Builder.ID == "" {
		t.Errorf("%+v", s)
	}
	archive, err := sumOf(filepath.Join(r.folder, "slipway_1.2.3_linux_amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(s.Subject, func(d descriptor) bool {
		return d.Name == "slipway_1.2.3_linux_amd64.tar.gz" && d.Digest["sha256"] == archive
	}) {
		t.Errorf("subjects %v lack the archive", s.Subject)
	}
	definition := s.Predicate.BuildDefinition
	if definition.ExternalParameters["version"] != "1.2.3" || definition.InternalParameters["go"] != info.GoVersion {
		t.Errorf("parameters %v and %v", definition.ExternalParameters, definition.InternalParameters)
	}
	if code := definition.ResolvedDependencies[0]; code.URI != "git+"+source+"@refs/tags/v1.2.3" || code.Digest["gitCommit"] != strings.Repeat("ab", 20) {
		t.Errorf("built from %v", code)
	}
}

// In a workflow, the provenance names the workflow and its run.
func TestBuilderIsTheWorkflow(t *testing.T) {
	env := map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "slipway-k8s/slipway", "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "1",
		"GITHUB_WORKFLOW_REF": "slipway-k8s/slipway/.github/workflows/release.yaml@refs/tags/v1.2.3",
	}
	got := buildOf("1.2.3", "", "", func(name string) string { return env[name] })
	want := build{
		version: "1.2.3", builder: "https://github.com/slipway-k8s/slipway/.github/workflows/release.yaml@refs/tags/v1.2.3",
		invocation: "https://github.com/slipway-k8s/slipway/actions/runs/7/attempts/1",
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A release without a program is an error, not an empty SBOM.
func TestReadNeedsTheProgram(t *testing.T) {
	if _, err := read(bytes.NewReader(packed(t, map[string][]byte{"other": nil})), "slipway"); err == nil || !strings.Contains(err.Error(), "reading slipway") {
		t.Error(err)
	}
	r := release{folder: t.TempDir(), out: io.Discard}
	if err := r.finish(t.Context()); err == nil || !strings.Contains(err.Error(), "layouts of images are expected") {
		t.Error(err)
	}
}

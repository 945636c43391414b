package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom lists what a program was linked from: Go and all modules, with their checksums and license texts. Equal programs have equal SBOMs: there
// is no time in it, and its serial number comes from the binary's digest.
func sbom(p *program, version string) ([]byte, error) {
	main := "pkg:golang/" + p.info.Main.Path + "@" + version + "?type=module&goos=" + p.os + "&goarch=" + p.architecture + "#cmd/" + p.name
	bom := cdx.NewBOM()
	bom.SerialNumber = serial(p.digest)
	bom.Metadata = &cdx.Metadata{
		Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "slipway release", Version: version}}},
		Component: &cdx.Component{
			BOMRef: main, Type: cdx.ComponentTypeApplication, Name: p.name, Version: version, PackageURL: main,
			Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.digest}},
			Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			Properties: properties(p.info),
		},
	}
	components := []cdx.Component{p.component(&debug.Module{Path: "std", Version: p.info.GoVersion})}
	for _, module := range p.info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, p.component(module))
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	var linked []string
	dependencies := []cdx.Dependency{{Ref: main, Dependencies: &linked}}
	for _, c := range components {
		linked = append(linked, c.BOMRef)
		dependencies = append(dependencies, cdx.Dependency{Ref: c.BOMRef})
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("writing the SBOM of %s: %w", p.name, err)
	}
	return out.Bytes(), nil
}

// component describes a module, with the license texts that travel with the program.
func (p *program) component(m *debug.Module) cdx.Component {
	version := m.Version
	if m.Path == "std" {
		version = strings.TrimPrefix(version, "go")
	}
	purl := "pkg:golang/" + m.Path + "@" + version + "?type=module"
	out := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: version, PackageURL: purl, Scope: cdx.ScopeRequired}
	// The sum of go.sum is the SHA-256 of the module's file hashes: what cyclonedx-gomod writes, too.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
		out.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	var texts []cdx.ExternalReference
	for _, text := range p.licensesOf(m.Path + "@" + m.Version) {
		texts = append(texts, cdx.ExternalReference{Type: cdx.ERTypeLicense, URL: text})
	}
	if len(texts) > 0 {
		out.ExternalReferences = &texts
	}
	return out
}

// properties are how the binary was built: the version of Go, and its settings.
func properties(info *debug.BuildInfo) *[]cdx.Property {
	out := []cdx.Property{{Name: "slipway:go", Value: info.GoVersion}}
	for _, s := range info.Settings {
		out = append(out, cdx.Property{Name: "slipway:build:" + s.Key, Value: s.Value})
	}
	return &out
}

// serial makes a UUID of version 8, which is for values of one's own, from a SHA-256.
func serial(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	attestv1 "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// The types of the predicates: SLSA's provenance, CycloneDX's SBOM, and what `cosign sign` states of an image.
const (
	provenanceType = "https://slsa.dev/provenance/v1"
	sbomType       = "https://cyclonedx.org/bom"
	signatureType  = "https://sigstore.dev/cosign/sign/v1"
)

// buildType says what the parameters of the provenance mean.
const buildType = source + "/blob/main/docs/operations.md#releases"

const source = "https://github.com/slipway-k8s/slipway"

// subject is a thing that a statement is about.
type subject struct {
	// name of the file or the image.
	name string
	// sha256 in hexadecimal.
	sha256 string
}

// build is how a release was built.
type build struct {
	version, revision, ldflags string
	// builder and invocation are URLs of the workflow and of its run; a build elsewhere has no invocation.
	builder, invocation string
}

// buildOf reads where the build runs from the variables that GitHub Actions sets.
func buildOf(version, revision, ldflags string, env func(string) string) build {
	out := build{version: version, revision: revision, ldflags: ldflags, builder: source + "/blob/main/Makefile"}
	if server := env("GITHUB_SERVER_URL"); env("GITHUB_ACTIONS") == "true" && server != "" {
		out.builder = server + "/" + env("GITHUB_WORKFLOW_REF")
		out.invocation = server + "/" + env("GITHUB_REPOSITORY") + "/actions/runs/" + env("GITHUB_RUN_ID") + "/attempts/" + env("GITHUB_RUN_ATTEMPT")
	}
	return out
}

// provenance states how the subjects were built. It has no time in it.
func provenance(subjects []subject, b build, goVersion string) ([]byte, error) {
	external, err := structpb.NewStruct(map[string]any{"target": "make release", "version": b.version})
	if err != nil {
		return nil, err
	}
	internal, err := structpb.NewStruct(map[string]any{"ldflags": b.ldflags, "go": goVersion})
	if err != nil {
		return nil, err
	}
	code := &attestv1.ResourceDescriptor{Uri: "git+" + source + "@refs/tags/v" + strings.TrimPrefix(b.version, "v")}
	if b.revision != "" {
		code.Digest = map[string]string{"gitCommit": b.revision}
	}
	predicate := &provenancev1.Provenance{
		BuildDefinition: &provenancev1.BuildDefinition{
			BuildType: buildType, ExternalParameters: external, InternalParameters: internal,
			ResolvedDependencies: []*attestv1.ResourceDescriptor{code, {Uri: "pkg:golang/std@" + strings.TrimPrefix(goVersion, "go")}},
		},
		RunDetails: &provenancev1.RunDetails{
			Builder:  &provenancev1.Builder{Id: b.builder},
			Metadata: &provenancev1.BuildMetadata{InvocationId: b.invocation},
		},
	}
	if err := predicate.Validate(); err != nil {
		return nil, fmt.Errorf("writing provenance: %w", err)
	}
	text, err := marshal(predicate)
	if err != nil {
		return nil, err
	}
	return statement(subjects, provenanceType, text)
}

// statement is an in-toto statement of a predicate about subjects.
func statement(subjects []subject, predicateType string, predicate []byte) ([]byte, error) {
	out := &attestv1.Statement{Type: attestv1.StatementTypeUri, PredicateType: predicateType, Predicate: &structpb.Struct{}}
	for _, s := range subjects {
		out.Subject = append(out.Subject, &attestv1.ResourceDescriptor{Name: s.name, Digest: map[string]string{"sha256": s.sha256}})
	}
	if err := protojson.Unmarshal(predicate, out.Predicate); err != nil {
		return nil, fmt.Errorf("writing a statement of type %s: %w", predicateType, err)
	}
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("writing a statement of type %s: %w", predicateType, err)
	}
	return marshal(out)
}

// marshal returns equal text for equal messages: protojson adds spaces at random.
func marshal(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, text)
	return out.Bytes(), err
}

package main

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	bundlev1 "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"
)

// verifier checks signatures with a public key in PEM.
func verifier(t *testing.T, public []byte) signature.Verifier {
	t.Helper()
	parsed, err := cryptoutils.UnmarshalPEMToPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	out, err := signature.LoadVerifier(parsed, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// verified returns the statement in a bundle whose signature is of the key.
func verified(t *testing.T, by signature.Verifier, bundle []byte) string {
	t.Helper()
	var b bundlev1.Bundle
	if err := protojson.Unmarshal(bundle, &b); err != nil {
		t.Fatal(err)
	}
	envelope := b.GetDsseEnvelope()
	if b.GetMediaType() != bundleType || envelope.GetPayloadType() != payloadType || len(envelope.GetSignatures()) != 1 {
		t.Fatalf("bundle %s", bundle)
	}
	signed := envelope.GetSignatures()[0].GetSig()
	if err := by.VerifySignature(bytes.NewReader(signed), bytes.NewReader(dsse.PAE(payloadType, envelope.GetPayload()))); err != nil {
		t.Errorf("%v in %s", err, bundle)
	}
	if by.VerifySignature(bytes.NewReader(signed), bytes.NewReader(dsse.PAE(payloadType, append(envelope.GetPayload(), ' ')))) == nil {
		t.Error("the signature is of another statement as well")
	}
	return string(envelope.GetPayload())
}

// referrer is an artifact of a layout that refers to an image.
type referrer struct {
	artifactType string
	subject      v1.Hash
	content      []byte
}

func referrers(t *testing.T, folder string) []referrer {
	t.Helper()
	opened, err := layout.FromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	index, err := opened.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	listed, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var out []referrer
	for _, d := range listed.Manifests {
		if d.ArtifactType == "" {
			continue
		}
		text, err := opened.Bytes(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		var m manifest
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		content, err := opened.Bytes(m.Layers[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, referrer{m.ArtifactType, m.Subject.Digest, content})
	}
	return out
}

func platforms(t *testing.T, r *release) []v1.Descriptor {
	t.Helper()
	opened, descriptor, _, err := openLayout(filepath.Join(r.folder, "images", "slipway-launcher"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := opened.Bytes(descriptor.Digest)
	if err != nil {
		t.Fatal(err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	return index.Manifests
}

// What a release signed with a key file is verified by the public key: of the image for all architectures its signature and provenance, of each
// platform its signature and SBOM, of the files the provenance and the checksums.
func isSignedByTheKey(t *testing.T, binary []byte) {
	t.Helper()
	with, _, public := keyPair(t)
	by := verifier(t, public)
	r := released(t, folder(t, binary, "registry.example/slipway"), with)
	_, descriptor, _, err := openLayout(filepath.Join(r.folder, "images", "slipway-launcher"))
	if err != nil {
		t.Fatal(err)
	}
	platform := platforms(t, r)[0].Digest
	var got []string
	for _, x := range referrers(t, filepath.Join(r.folder, "images", "slipway-launcher")) {
		about := map[v1.Hash]string{descriptor.Digest: "image", platform: "platform"}[x.subject]
		if x.artifactType != bundleType {
			got = append(got, about+" "+x.artifactType)
			continue
		}
		text := verified(t, by, x.content)
		if !strings.Contains(text, x.subject.Hex) {
			t.Errorf("statement %s is not about %s", text, x.subject)
		}
		var s struct{ PredicateType string }
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		got = append(got, about+" "+s.PredicateType)
	}
	want := []string{
		"platform application/vnd.cyclonedx+json", "platform " + sbomType, "platform " + signatureType,
		"image " + payloadType, "image " + provenanceType, "image " + signatureType,
	}
	if !slices.Equal(got, want) {
		t.Errorf("referrers %q, want %q", got, want)
	}
	files := contents(t, r.folder)
	if text := verified(t, by, []byte(files[provenanceBundle])); text != files[provenanceFile] {
		t.Errorf("signed %s, want %s", text, files[provenanceFile])
	}
	var b bundlev1.Bundle
	if err := protojson.Unmarshal([]byte(files[sums+bundleSuffix]), &b); err != nil {
		t.Fatal(err)
	}
	if err := by.VerifySignature(bytes.NewReader(b.GetMessageSignature().GetSignature()), strings.NewReader(files[sums])); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(files[sums]) {
		sum := sha256.Sum256([]byte(files[strings.Fields(line)[1]]))
		if hex.EncodeToString(sum[:]) != strings.Fields(line)[0] {
			t.Errorf("%s is not its checksum", line)
		}
	}
}

// Another key verifies nothing.
func TestAnotherKeyVerifiesNothing(t *testing.T) {
	with, private, _ := keyPair(t)
	_, _, public := keyPair(t)
	signed, err := with.signer.SignMessage(strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	if verifier(t, public).VerifySignature(bytes.NewReader(signed), strings.NewReader("content")) == nil {
		t.Error("another key verifies the signature")
	}
	if _, err := newKey(private, []byte("another password")); err == nil || !strings.Contains(err.Error(), "reading COSIGN_KEY") {
		t.Errorf("with another password: %v", err)
	}
	file := filepath.Join(t.TempDir(), "cosign.key")
	if err := os.WriteFile(file, private, 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"COSIGN_KEY": file, "COSIGN_PASSWORD": password}
	if got, err := signerOf("", func(name string) string { return env[name] }); err != nil || got.(*key).hint != with.hint {
		t.Errorf("COSIGN_KEY: %v, %v", got, err)
	}
	if _, err := signerOf("cosign", func(name string) string { return env[name] }); err == nil {
		t.Error("two ways to sign at once")
	}
}

// A pushed image has all its referrers, in a registry with the referrers API and in one without.
func isPushedWithReferrers(t *testing.T, binary []byte) {
	t.Helper()
	with, _, _ := keyPair(t)
	for _, api := range []bool{true, false} {
		r := released(t, folder(t, binary, serve(t, api)+"/slipway"), with)
		if err := r.push(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, descriptor, tag, err := openLayout(filepath.Join(r.folder, "images", "slipway-launcher"))
		if err != nil {
			t.Fatal(err)
		}
		head, err := remote.Head(tag)
		if err != nil || head.Digest != descriptor.Digest {
			t.Errorf("%s is %v, want %s: %v", tag, head, descriptor.Digest, err)
		}
		for _, digest := range []v1.Hash{descriptor.Digest, platforms(t, r)[0].Digest} {
			index, err := remote.Referrers(tag.Digest(digest.String()))
			if err != nil {
				t.Fatal(err)
			}
			listed, err := index.IndexManifest()
			if err != nil || len(listed.Manifests) != 3 {
				t.Fatalf("referrers API %v: %d referrers of %s, %v", api, len(listed.Manifests), digest, err)
			}
			for _, d := range listed.Manifests {
				if d.ArtifactType == "" {
					t.Errorf("referrers API %v: %s has no type", api, d.Digest)
				}
			}
		}
	}
}

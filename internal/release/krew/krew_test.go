package krew_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/internal/release/krew"
)

// The manifest has what krew demands of a plugin: name, semantic version, one line of description, and per platform an address, a checksum, the
// files and the program among them.
func TestManifest(t *testing.T) {
	got, err := krew.Manifest("1.2.3", "https://github.com/slipway-k8s/slipway", []krew.Archive{
		{OS: "darwin", Architecture: "arm64", Name: "slipway_1.2.3_darwin_arm64.tar.gz", Content: []byte("packed")},
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("packed"))
	want := `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: slipway
spec:
  description: |
    Shows why a pod waits and what is launched for it, lists nodes with their cost,
    and simulates launches and consolidation for a cluster or for manifests.
  homepage: https://github.com/slipway-k8s/slipway
  platforms:
  - bin: slipway
    files:
    - from: slipway
      to: .
    - from: LICENSE
      to: .
    selector:
      matchLabels:
        arch: arm64
        os: darwin
    sha256: ` + hex.EncodeToString(sum[:]) + `
    uri: https://github.com/slipway-k8s/slipway/releases/download/v1.2.3/slipway_1.2.3_darwin_arm64.tar.gz
  shortDescription: Show and predict the nodes that slipway launches
  version: v1.2.3
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestManifestNeedsASemanticVersion(t *testing.T) {
	for _, version := range []string{"", "dev", "672b150", "1.2"} {
		if _, err := krew.Manifest(version, "https://example.com", nil); err == nil || !strings.Contains(err.Error(), "MAJOR.MINOR.PATCH is expected") {
			t.Errorf("%q: %v", version, err)
		}
	}
}

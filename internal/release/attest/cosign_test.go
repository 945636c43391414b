package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// serve runs a registry on loopback, and returns its name.
func serve(t *testing.T, referrers bool) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(referrers), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// The real cosign verifies images, attestations and files by the commands of SECURITY.md, in a registry with the referrers API and in one without,
// as signed with a key here and as signed by cosign itself.
func TestCosignVerifies(t *testing.T) {
	cosignPath := os.Getenv("SLIPWAY_COSIGN")
	if cosignPath == "" {
		t.Skip("make release-check builds cosign and runs this: it takes minutes")
	}
	binary := self(t)
	with, private, public := keyPair(t)
	work := t.TempDir()
	secret, open := filepath.Join(work, "cosign.key"), filepath.Join(work, "cosign.pub")
	for path, text := range map[string][]byte{secret: private, open: public} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("COSIGN_PASSWORD", password)
	t.Setenv("HOME", work)
	for name, signs := range map[string]signer{
		"key": with, "cosign": &cosign{command: []string{cosignPath}, arguments: []string{"--key", secret, "--tlog-upload=false", "--use-signing-config=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			host := serve(t, name == "key")
			r := released(t, folder(t, binary, host+"/slipway"), signs)
			if err := r.push(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, descriptor, tag, err := openLayout(filepath.Join(r.folder, "images", "slipway-launcher"))
			if err != nil {
				t.Fatal(err)
			}
			image := tag.Digest(descriptor.Digest.String()).String()
			platform := tag.Digest(platforms(t, r)[0].Digest.String()).String()
			file := func(name string) string { return filepath.Join(r.folder, name) }
			for _, call := range [][]string{
				{"verify", image},
				{"verify", platform},
				{"verify-attestation", "--type", "slsaprovenance1", image},
				{"verify-attestation", "--type", "cyclonedx", platform},
				{"verify-blob", "--bundle", file("SHA256SUMS.sigstore.json"), file("SHA256SUMS")},
				{"verify-blob-attestation", "--type", "slsaprovenance1", "--bundle", file("provenance.sigstore.json"), file("slipway_1.2.3_linux_amd64.tar.gz")},
			} {
				args := append(call, "--key", open, "--insecure-ignore-tlog=true")
				out, err := exec.CommandContext(t.Context(), cosignPath, args...).CombinedOutput()
				if err != nil {
					t.Errorf("cosign %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
			wrong := exec.CommandContext(t.Context(), cosignPath, "verify-blob", "--key", open, "--insecure-ignore-tlog=true", "--bundle", file("SHA256SUMS.sigstore.json"), file("provenance.json"))
			if out, err := wrong.CombinedOutput(); err == nil {
				t.Errorf("cosign verifies another file:\n%s", out)
			}
		})
	}
}

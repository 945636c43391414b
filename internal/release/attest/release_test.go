package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/elliptic"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

const password = "a password"

// keyPair makes a key as `cosign generate-key-pair` does: the private one encrypted, the public one in PEM.
func keyPair(t *testing.T) (*key, []byte, []byte) {
	t.Helper()
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte(password)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := newKey(private, []byte(password))
	if err != nil {
		t.Fatal(err)
	}
	return out, private, public
}

// self links this command, which stands in for slipway's: a Go binary with modules in its build info.
func self(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slipway")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func packed(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const license = "licenses/github.com/CycloneDX/cyclonedx-go@v0.12.0/LICENSE"

// folder makes a small release: an image for one architecture, an archive, a chart.
func folder(t *testing.T, binary []byte, repository string) string {
	t.Helper()
	out := t.TempDir()
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer(packed(t, map[string][]byte{"slipway-launcher": binary}), types.OCIUncompressedLayer),
	})
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	})
	written, err := layout.Write(filepath.Join(out, "images", "slipway-launcher"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := written.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: repository + "/slipway-launcher:1.2.3"})); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w, err := gzip.NewWriterLevel(&archive, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(packed(t, map[string][]byte{"slipway": binary, license: []byte("a license")})); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"slipway_1.2.3_linux_amd64.tar.gz": archive.Bytes(), "slipway-1.2.3.tgz": []byte("a chart"), "images.txt": []byte("the images"),
	} {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func released(t *testing.T, folder string, with signer) *release {
	t.Helper()
	none := func(string) string { return "" }
	r := &release{folder: folder, out: io.Discard, with: with, build: buildOf("1.2.3", strings.Repeat("ab", 20), "-s -w", none)}
	if err := r.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// contents are all files of a folder, by their paths.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A release of a small program, which is linked once for all that is held against it.
func TestRelease(t *testing.T) {
	binary := self(t)
	for name, test := range map[string]func(*testing.T, []byte){
		"reproducible": isReproducible, "checksums": hasChecksums, "signed": isSignedByTheKey, "pushed": isPushedWithReferrers, "sbom": hasSBOM, "provenance": hasProvenance,
	} {
		t.Run(name, func(t *testing.T) { test(t, binary) })
	}
}

// Equal files give an equal release, and a second run changes nothing: SBOMs, provenance, checksums and the images' layouts.
func isReproducible(t *testing.T, binary []byte) {
	t.Helper()
	one := released(t, folder(t, binary, "registry.example/slipway"), nil)
	first := contents(t, one.folder)
	other := contents(t, released(t, folder(t, binary, "registry.example/slipway"), nil).folder)
	if err := one.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := contents(t, one.folder)
	for name, text := range first {
		if other[name] != text {
			t.Errorf("%s differs in another folder", name)
		}
		if again[name] != text {
			t.Errorf("%s differs after a second run", name)
		}
	}
	if len(again) != len(first) || len(other) != len(first) {
		t.Errorf("%d files, %d in another folder, %d after a second run", len(first), len(other), len(again))
	}
}

// The checksums are of every file but the images' layouts, and nothing is signed without a key.
func hasChecksums(t *testing.T, binary []byte) {
	t.Helper()
	got := contents(t, released(t, folder(t, binary, "registry.example/slipway"), nil).folder)
	var names []string
	for line := range strings.Lines(got[sums]) {
		names = append(names, strings.Fields(line)[1])
	}
	want := []string{
		"images.txt", "provenance.json", "slipway-1.2.3.tgz", "slipway-launcher_linux_amd64.cdx.json", "slipway_1.2.3_linux_amd64.tar.gz", "slipway_linux_amd64.cdx.json",
	}
	if !slices.Equal(names, want) {
		t.Errorf("checksums of %q, want %q", names, want)
	}
	for name := range got {
		if strings.HasSuffix(name, bundleSuffix) {
			t.Errorf("%s is there without a key", name)
		}
	}
}

package image_test

import (
	"archive/tar"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/slipway-k8s/slipway/internal/release/image"
)

func build(t *testing.T, architecture, binary string) v1.Image {
	t.Helper()
	out, err := image.New(image.Program{
		Name: "slipway-launcher", Architecture: architecture, Binary: []byte(binary), Licenses: map[string][]byte{"example.com/m@v1.0.0/LICENSE": []byte("a license")},
	}, image.Labels{Version: "v1.2.3", Go: "go1.26.8"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func digest(t *testing.T, i interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	hash, err := i.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func TestEqualInputIsAnEqualDigest(t *testing.T) {
	one := digest(t, build(t, "amd64", "the binary"))
	if again := digest(t, build(t, "amd64", "the binary")); again != one {
		t.Errorf("%s, then %s", one, again)
	}
	if other := digest(t, build(t, "amd64", "another binary")); other == one {
		t.Error("another binary has the same digest")
	}
}

func TestImageRunsAsNobody(t *testing.T) {
	made := build(t, "arm64", "the binary")
	if err := validate.Image(made); err != nil {
		t.Error(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.OS != "linux" || config.Architecture != "arm64" {
		t.Errorf("%+v", config)
	}
	if diff := cmp.Diff([]string{"/slipway-launcher"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if l := config.Config.Labels; l["org.opencontainers.image.version"] != "v1.2.3" || l["dev.slipway.go"] != "go1.26.8" {
		t.Errorf("labels %v", config.Config.Labels)
	}
	layers, err := made.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	want := map[string]int64{
		"etc/": 0o755, "etc/group": 0o644, "etc/passwd": 0o644, "run/": 0o755, "run/slipway/": 0o755, "tmp/": 0o1777, "slipway-launcher": 0o755,
		"licenses/": 0o755, "licenses/example.com/": 0o755, "licenses/example.com/m@v1.0.0/": 0o755, "licenses/example.com/m@v1.0.0/LICENSE": 0o644,
	}
	if diff := cmp.Diff(want, modes(t, layers[0])); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// modes are those of the layer's files, which all are root's and of no time.
func modes(t *testing.T, layer v1.Layer) map[string]int64 {
	t.Helper()
	content, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for reader := tar.NewReader(content); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = h.Mode
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s is of %d:%d at %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
	}
}

func TestIndexHasEachPlatform(t *testing.T) {
	index, err := image.Index([]v1.Image{build(t, "amd64", "a"), build(t, "arm64", "b")})
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest.Manifests {
		got = append(got, m.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestImageNeedsABinary(t *testing.T) {
	if _, err := image.New(image.Program{Name: "x", Architecture: "amd64"}, image.Labels{}); err == nil {
		t.Error("an image without a binary")
	}
}

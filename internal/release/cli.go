package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-k8s/slipway/internal/release/archive"
	"github.com/slipway-k8s/slipway/internal/release/krew"
)

// cli packs the command line for each platform, and writes the manifest by which krew installs these archives.
func (r *release) cli(ctx context.Context) error {
	if r.version == "" {
		return errors.New("--version is required")
	}
	var packed []krew.Archive
	for _, platform := range r.platforms {
		goos, goarch, found := strings.Cut(platform, "/")
		if !found {
			return fmt.Errorf("--platform %s: GOOS/GOARCH is expected", platform)
		}
		work, err := os.MkdirTemp("", "slipway-cli-")
		if err != nil {
			return err
		}
		made, err := r.build(ctx, "slipway", goos, goarch, work)
		if err := errors.Join(err, os.RemoveAll(work)); err != nil {
			return err
		}
		content, err := pack(made)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("slipway_%s_%s_%s.tar.gz", r.version, goos, goarch)
		path := filepath.Join(r.out, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
		fmt.Println(path)
		packed = append(packed, krew.Archive{OS: goos, Architecture: goarch, Name: name, Content: content})
	}
	manifest, err := krew.Manifest(r.version, source, packed)
	if err != nil {
		return err
	}
	path := filepath.Join(r.out, "slipway.krew.yaml")
	fmt.Println(path)
	return os.WriteFile(path, manifest, 0o644)
}

// pack returns the archive of the command line: the binary, slipway's license, and those of what it links.
func pack(made *built) ([]byte, error) {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	files := map[string]archive.File{
		"slipway": {Mode: 0o755, Content: made.binary},
		"LICENSE": {Mode: 0o644, Content: license},
	}
	for name, text := range made.licenses {
		files["licenses/"+name] = archive.File{Mode: 0o644, Content: text}
	}
	return archive.TarGz(files)
}

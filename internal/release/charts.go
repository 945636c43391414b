package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-k8s/slipway/internal/release/archive"
	"github.com/slipway-k8s/slipway/manifests/chart"
)

// charts packs both charts, and writes the CRDs for kubectl too. Given the file of the images, the chart names them by digest.
func (r *release) charts() error {
	// Helm logs each link that it follows.
	log.SetOutput(io.Discard)
	into := filepath.Join(r.out, "charts")
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	var images []chart.Image
	if r.pinned != "" {
		text, err := os.ReadFile(r.pinned)
		if err != nil {
			return fmt.Errorf("reading --digests: %w", err)
		}
		if images, err = chart.ParseImages(text); err != nil {
			return err
		}
	}
	for _, folder := range []string{"slipway-crds", "slipway"} {
		pinned := images
		if folder == "slipway-crds" {
			pinned = nil // It deploys no image.
		}
		path, err := chart.Pack(filepath.Join("manifests", "charts", folder), r.version, into, pinned)
		if err != nil {
			return err
		}
		if err := repack(path); err != nil {
			return err
		}
		fmt.Println(path)
	}
	crds, err := chart.CRDs()
	if err != nil {
		return err
	}
	var texts []string
	for _, crd := range crds {
		texts = append(texts, string(crd.Data))
	}
	path := filepath.Join(into, "crds.yaml")
	fmt.Println(path)
	return os.WriteFile(path, []byte(strings.Join(texts, "---\n")), 0o644)
}

// repack writes a chart's archive again without the time at which Helm packed it.
func repack(path string) error {
	packed, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("reading chart %s: %w", path, err)
	}
	files := map[string]archive.File{}
	for reader := tar.NewReader(content); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading chart %s: %w", path, err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return fmt.Errorf("reading chart %s: %w", path, err)
		}
		files[h.Name] = archive.File{Mode: 0o644, Content: text}
	}
	if packed, err = archive.TarGz(files); err != nil {
		return fmt.Errorf("packing chart %s: %w", path, err)
	}
	return os.WriteFile(path, packed, 0o644)
}

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// release is the folder of a release and how it is finished.
type release struct {
	folder string
	build  build
	// out is where the names of written files are printed.
	out io.Writer
	// with is nil where nothing is signed.
	with signer
}

// The files that attest writes beside those of the release.
const (
	sums             = "SHA256SUMS"
	provenanceFile   = "provenance.json"
	bundleSuffix     = ".sigstore.json"
	provenanceBundle = "provenance" + bundleSuffix
)

// finish does the images, then the archives, then what covers all files.
func (r *release) finish(ctx context.Context) error {
	layouts, err := r.layouts()
	if err != nil {
		return err
	}
	for _, path := range layouts {
		if err := r.image(ctx, path); err != nil {
			return fmt.Errorf("attesting image %s: %w", path, err)
		}
	}
	goVersion, err := r.archives()
	if err != nil {
		return err
	}
	subjects, err := r.files(provenanceFile)
	if err != nil {
		return err
	}
	text, err := provenance(subjects, r.build, goVersion)
	if err != nil {
		return err
	}
	if err := r.write(provenanceFile, text); err != nil {
		return err
	}
	if subjects, err = r.files(); err != nil {
		return err
	}
	var list strings.Builder
	for _, s := range subjects {
		fmt.Fprintf(&list, "%s  %s\n", s.sha256, s.name)
	}
	if err := r.write(sums, []byte(list.String())); err != nil {
		return err
	}
	return r.sign(ctx, text, []byte(list.String()))
}

// sign writes the bundles of the provenance and of the checksums. Those of an earlier run are removed.
func (r *release) sign(ctx context.Context, provenance, list []byte) error {
	for _, name := range []string{provenanceBundle, sums + bundleSuffix} {
		if err := os.RemoveAll(filepath.Join(r.folder, name)); err != nil {
			return err
		}
	}
	if r.with == nil {
		return nil
	}
	bundle, err := r.with.statement(ctx, provenance)
	if err != nil {
		return err
	}
	if err := r.write(provenanceBundle, bundle); err != nil {
		return err
	}
	if bundle, err = r.with.file(ctx, list); err != nil {
		return err
	}
	return r.write(sums+bundleSuffix, bundle)
}

// archives writes the SBOM of each archive of the command line, and returns the version of Go that built them.
func (r *release) archives() (string, error) {
	packed, err := filepath.Glob(filepath.Join(r.folder, "slipway_*.tar.gz"))
	if err != nil {
		return "", err
	}
	goVersion := ""
	for _, path := range packed {
		file, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		content, err := gzip.NewReader(bytes.NewReader(file))
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", path, err)
		}
		p, err := read(content, "slipway")
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", path, err)
		}
		if _, err := r.sbom(p); err != nil {
			return "", err
		}
		goVersion = p.info.GoVersion
	}
	if goVersion == "" {
		return "", fmt.Errorf("reading %s: slipway_VERSION_OS_ARCHITECTURE.tar.gz is expected", r.folder)
	}
	return goVersion, nil
}

// sbom writes the SBOM of a program, and returns it.
func (r *release) sbom(p *program) ([]byte, error) {
	text, err := sbom(p, r.build.version)
	if err != nil {
		return nil, err
	}
	return text, r.write(p.name+"_"+p.os+"_"+p.architecture+".cdx.json", text)
}

// files are those of the release by their names, sorted, without checksums, signatures and the given names. Images are in a folder below.
func (r *release) files(without ...string) ([]subject, error) {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return nil, err
	}
	var out []subject
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || name == sums || strings.HasSuffix(name, bundleSuffix) || slices.Contains(without, name) {
			continue
		}
		sum, err := sumOf(filepath.Join(r.folder, name))
		if err != nil {
			return nil, err
		}
		out = append(out, subject{name: name, sha256: sum})
	}
	return out, nil
}

// sumOf returns the SHA-256 of a file in hexadecimal.
func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), err
}

func (r *release) write(name string, content []byte) error {
	path := filepath.Join(r.folder, name)
	fmt.Fprintln(r.out, path)
	return os.WriteFile(path, content, 0o644)
}

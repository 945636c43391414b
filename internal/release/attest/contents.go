package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime/debug"
	"slices"
	"strings"
)

// program is a binary as it is published, in an image or an archive.
type program struct {
	// name of the program, and its platform: GOOS and GOARCH.
	name, os, architecture string
	// digest is the binary's SHA-256, in hexadecimal.
	digest string
	// info is what the Go linker wrote into the binary.
	info *debug.BuildInfo
	// licenses are the paths of the license texts beside it, sorted.
	licenses []string
}

// read finds the program and its licenses in a tar stream: an image's layer or an archive.
func read(content io.Reader, name string) (*program, error) {
	out := &program{name: name}
	for reader := tar.NewReader(content); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		switch {
		case h.Name == name:
			binary, err := io.ReadAll(reader)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			sum := sha256.Sum256(binary)
			out.digest = hex.EncodeToString(sum[:])
			if out.info, err = buildinfo.Read(bytes.NewReader(binary)); err != nil {
				return nil, fmt.Errorf("reading build info of %s: %w", name, err)
			}
		case h.Typeflag == tar.TypeReg && strings.HasPrefix(h.Name, "licenses/"):
			out.licenses = append(out.licenses, h.Name)
		}
	}
	if out.info == nil {
		return nil, fmt.Errorf("reading %s: no such file among the contents", name)
	}
	for _, s := range out.info.Settings {
		switch s.Key {
		case "GOOS":
			out.os = s.Value
		case "GOARCH":
			out.architecture = s.Value
		}
	}
	slices.Sort(out.licenses)
	return out, nil
}

// licensesOf returns the paths of the license texts of a module.
func (p *program) licensesOf(module string) []string {
	var out []string
	for _, text := range p.licenses {
		if strings.HasPrefix(text, path.Join("licenses", module)+"/") {
			out = append(out, text)
		}
	}
	return out
}

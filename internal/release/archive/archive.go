// Package archive packs files as tar.gz so that equal files give equal bytes: sorted, owned by root, of no time.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"
)

// File is a file of an archive.
type File struct {
	// Mode are the permission bits.
	Mode int64
	// Content of the file.
	Content []byte
}

// Tar packs files by their paths, after the folders that they are in.
func Tar(files map[string]File) ([]byte, error) {
	all := maps.Clone(files)
	for name := range files {
		for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if _, set := all[dir+"/"]; !set {
				all[dir+"/"] = File{Mode: 0o755}
			}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		h := &tar.Header{Name: name, Mode: f.Mode, Size: int64(len(f.Content)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if name[len(name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// TarGz packs files and compresses them.
func TarGz(files map[string]File) ([]byte, error) {
	packed, err := Tar(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(packed); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

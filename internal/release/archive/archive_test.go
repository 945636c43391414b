package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/internal/release/archive"
)

func files() map[string]archive.File {
	return map[string]archive.File{
		"slipway":                               {Mode: 0o755, Content: []byte("the binary")},
		"LICENSE":                               {Mode: 0o644, Content: []byte("a license")},
		"licenses/example.com/m@v1.0.0/LICENSE": {Mode: 0o644, Content: []byte("another license")},
		"tmp/":                                  {Mode: 0o1777},
	}
}

func TestEqualFilesAreEqualBytes(t *testing.T) {
	one, err := archive.TarGz(files())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if again, err := archive.TarGz(files()); err != nil || !bytes.Equal(one, again) {
			t.Fatalf("a second archive differs, %v", err)
		}
	}
	changed := files()
	changed["LICENSE"] = archive.File{Mode: 0o644, Content: []byte("a License")}
	if other, err := archive.TarGz(changed); err != nil || bytes.Equal(one, other) {
		t.Errorf("another file gives the same archive, %v", err)
	}
}

// A folder comes before what is in it, and nothing of the machine that packed comes along.
func TestArchiveIsSortedAndOfNoTime(t *testing.T) {
	packed, err := archive.TarGz(files())
	if err != nil {
		t.Fatal(err)
	}
	content, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if !content.ModTime.IsZero() || content.Name != "" {
		t.Errorf("gzip's header has %q of %s", content.Name, content.ModTime)
	}
	type entry struct {
		Name string
		Mode int64
	}
	var got []entry
	for reader := tar.NewReader(content); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("%s is of %d:%d (%s) at %s", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		got = append(got, entry{h.Name, h.Mode})
	}
	want := []entry{
		{"LICENSE", 0o644},
		{"licenses/", 0o755},
		{"licenses/example.com/", 0o755},
		{"licenses/example.com/m@v1.0.0/", 0o755},
		{"licenses/example.com/m@v1.0.0/LICENSE", 0o644},
		{"slipway", 0o755},
		{"tmp/", 0o1777},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

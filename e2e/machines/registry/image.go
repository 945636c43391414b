package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// waiting is the default command: it sleeps, and ends at once on SIGTERM.
const waiting = `trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done`

// newImage makes an image of busybox with pad MiB beside it.
func newImage(busybox string, pad int) (v1.Image, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	content, err := archive(program)
	if err != nil {
		return nil, err
	}
	layers := [][]byte{content}
	if pad > 0 {
		ballast, err := padding(pad)
		if err != nil {
			return nil, err
		}
		layers = append(layers, ballast)
	}
	image := v1.Image(empty.Image)
	for _, l := range layers {
		// What cannot be compressed is not tried to be, and kept: a download shall cost what the throttle says.
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l)), nil },
			tarball.WithCompressionLevel(gzip.NoCompression), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config.Env = []string{"PATH=/bin"}
	file.Config.Cmd = []string{"/bin/sh", "-c", waiting}
	return mutate.ConfigFile(image, file)
}

// archive is a file system with busybox under the names of its most used commands.
func archive(program []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	headers := []*tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o777},
		{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))},
	}
	for _, h := range headers {
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if h.Size > 0 {
			if _, err := w.Write(program); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range []string{"sh", "sleep", "cat", "echo", "env", "ls", "touch", "true", "false", "date", "wget", "nc", "httpd"} {
		if err := w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// padding is a file of pad MiB that nothing can compress.
func padding(pad int) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	size := int64(pad) << 20
	if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("pad-%d", pad), Mode: 0o644, Size: size}); err != nil {
		return nil, err
	}
	var seed [32]byte
	if _, err := io.CopyN(w, rand.NewChaCha8(seed), size); err != nil {
		return nil, err
	}
	return out.Bytes(), w.Close()
}

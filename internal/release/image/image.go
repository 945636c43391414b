// Package image builds container images of static binaries without Docker: one layer with the binary, its user and the
// licenses of what it links. Equal input gives an equal digest: the image contains no time, no machine name and no random order.
package image

import (
	"bytes"
	"errors"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/slipway-k8s/slipway/internal/release/archive"
)

// User is the user that the program runs as. It is a number, since Kubernetes' runAsNonRoot cannot check names.
const User = "65532:65532"

const (
	passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// Program is a static binary for one platform.
type Program struct {
	// Name of the binary, and of its file in the image.
	Name string
	// Architecture of Linux, such as amd64.
	Architecture string
	// Binary is its content.
	Binary []byte
	// Licenses are the license texts of what it links, by their paths below /licenses.
	Licenses map[string][]byte
}

// Labels are the org.opencontainers.image labels of an image.
type Labels struct {
	// Version of slipway.
	Version string
	// Revision is the commit; empty leaves it out.
	Revision string
	// Source is the URL of the repository.
	Source string
	// Go is the version of Go that built the binary; empty leaves it out.
	Go string
}

func (l Labels) values(program string) map[string]string {
	const prefix = "org.opencontainers.image."
	out := map[string]string{prefix + "title": program, prefix + "version": l.Version, prefix + "source": l.Source, prefix + "licenses": "Apache-2.0"}
	if l.Revision != "" {
		out[prefix+"revision"] = l.Revision
	}
	if l.Go != "" {
		out["dev.slipway.go"] = l.Go
	}
	return out
}

// New returns the image of one program.
func New(p Program, l Labels) (v1.Image, error) {
	if p.Name == "" || p.Architecture == "" || len(p.Binary) == 0 {
		return nil, errors.New("image: name, architecture and binary are required")
	}
	content, err := files(p)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer, History: v1.History{CreatedBy: "slipway", Comment: p.Name},
		Annotations: map[string]string{"org.opencontainers.image.title": p.Name},
	})
	if err != nil {
		return nil, err
	}
	id, err := layer.DiffID()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: p.Architecture, OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{id}},
		History: []v1.History{{CreatedBy: "slipway", Comment: p.Name}},
		Config: v1.Config{
			User: User, WorkingDir: "/", Entrypoint: []string{"/" + p.Name},
			Env: []string{"PATH=/"}, Labels: l.values(p.Name),
		},
	})
}

// files returns the layer.
func files(p Program) ([]byte, error) {
	out := map[string]archive.File{
		"etc/group":  {Mode: 0o644, Content: []byte(group)},
		"etc/passwd": {Mode: 0o644, Content: []byte(passwd)},
		// A read-only root file system has volumes mounted here.
		"run/slipway/": {Mode: 0o755},
		"tmp/":         {Mode: 0o1777},
		p.Name:         {Mode: 0o755, Content: p.Binary},
	}
	for name, text := range p.Licenses {
		out["licenses/"+name] = archive.File{Mode: 0o644, Content: text}
	}
	return archive.Tar(out)
}

// Index combines the images of one program for several platforms under one name.
func Index(images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	return index, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/slipway-k8s/slipway/internal/release/image"
)

// images builds one image of each program: an OCI layout for all architectures, and an archive for each architecture, for `docker load` and
// `kind load image-archive`. images.txt names them by their digests.
func (r *release) images(ctx context.Context) error {
	if r.version == "" {
		return errors.New("--version is required")
	}
	var named strings.Builder
	for _, program := range r.programs {
		reference, err := name.NewTag(r.repository + "/" + program + ":" + r.version)
		if err != nil {
			return err
		}
		index, err := r.index(ctx, program, reference)
		if err != nil {
			return fmt.Errorf("making the image of %s: %w", program, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", reference, digest)
		fmt.Fprintf(&named, "%s@%s\n", reference, digest)
		if r.push {
			if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(r.out, "images", "images.txt"), []byte(named.String()), 0o644)
}

func (r *release) index(ctx context.Context, program string, reference name.Tag) (v1.ImageIndex, error) {
	folder := filepath.Join(r.out, "images")
	var images []v1.Image
	for _, architecture := range r.architectures {
		made, err := r.image(ctx, program, architecture)
		if err != nil {
			return nil, err
		}
		images = append(images, made)
		if !r.archives {
			continue
		}
		archive := filepath.Join(folder, program+"-linux-"+architecture+".tar")
		if err := tarball.WriteToFile(archive, reference, made); err != nil {
			return nil, err
		}
		fmt.Println(archive)
	}
	index, err := image.Index(images)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, program)
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	written, err := layout.Write(path, empty.Index)
	if err != nil {
		return nil, err
	}
	fmt.Println(path)
	return index, written.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": reference.String()}))
}

// image builds the image of a program for one architecture.
func (r *release) image(ctx context.Context, program, architecture string) (v1.Image, error) {
	made, err := r.build(ctx, program, "linux", architecture, filepath.Join(r.out, "images", "linux-"+architecture))
	if err != nil {
		return nil, err
	}
	if err := image.CheckStatic(made.binary, architecture); err != nil {
		return nil, err
	}
	return image.New(
		image.Program{Name: program, Architecture: architecture, Binary: made.binary, Licenses: made.licenses},
		image.Labels{Version: r.version, Revision: r.revision, Source: source, Go: made.info.GoVersion},
	)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// refName is the annotation with the name of an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// layouts are the folders of the images.
func (r *release) layouts() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(r.folder, "images", "*", "index.json"))
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("reading %s: layouts of images are expected in images/", r.folder)
	}
	return found, err
}

// openLayout returns a layout, its image of all architectures, and that one's name.
func openLayout(folder string) (layout.Path, v1.Descriptor, name.Tag, error) {
	fail := func(err error) (layout.Path, v1.Descriptor, name.Tag, error) {
		return "", v1.Descriptor{}, name.Tag{}, err
	}
	opened, err := layout.FromPath(folder)
	if err != nil {
		return fail(err)
	}
	index, err := opened.ImageIndex()
	if err != nil {
		return fail(err)
	}
	listed, err := index.IndexManifest()
	if err != nil {
		return fail(err)
	}
	for _, d := range listed.Manifests {
		if d.Annotations[refName] != "" && d.MediaType.IsIndex() {
			tag, err := name.NewTag(d.Annotations[refName])
			return opened, d, tag, err
		}
	}
	return fail(errors.New("an image index with a name is expected"))
}

// image attaches to the image of a layout what the release says of it. What an earlier run attached is taken off first.
func (r *release) image(ctx context.Context, folder string) error {
	opened, descriptor, tag, err := openLayout(folder)
	if err != nil {
		return err
	}
	if err := opened.RemoveDescriptors(func(d v1.Descriptor) bool { return d.ArtifactType != "" }); err != nil {
		return err
	}
	top, err := opened.ImageIndex()
	if err != nil {
		return err
	}
	index, err := top.ImageIndex(descriptor.Digest)
	if err != nil {
		return err
	}
	listed, err := index.IndexManifest()
	if err != nil {
		return err
	}
	subjects := []subject{{name: tag.Repository.Name(), sha256: descriptor.Digest.Hex}}
	goVersion := ""
	for _, d := range listed.Manifests {
		subjects = append(subjects, subject{name: tag.Repository.Name(), sha256: d.Digest.Hex})
		p, err := programOf(index, d.Digest, path.Base(tag.Repository.Name()))
		if err != nil {
			return err
		}
		goVersion = p.info.GoVersion
		text, err := r.sbom(p)
		if err != nil {
			return err
		}
		if err := attach(opened, d, "application/vnd.cyclonedx+json", text, nil); err != nil {
			return err
		}
		if err := r.attest(ctx, opened, d, sbomType, text); err != nil {
			return err
		}
		if err := r.attest(ctx, opened, d, signatureType, []byte("{}")); err != nil {
			return err
		}
	}
	text, err := provenance(subjects, r.build, goVersion)
	if err != nil {
		return err
	}
	if err := attach(opened, descriptor, payloadType, text, map[string]string{"in-toto.io/predicate-type": provenanceType}); err != nil {
		return err
	}
	if err := r.bundle(ctx, opened, descriptor, provenanceType, text); err != nil {
		return err
	}
	return r.attest(ctx, opened, descriptor, signatureType, []byte("{}"))
}

// attest attaches a signed statement of a predicate about an image.
func (r *release) attest(ctx context.Context, to layout.Path, about v1.Descriptor, predicateType string, predicate []byte) error {
	text, err := statement([]subject{{sha256: about.Digest.Hex}}, predicateType, predicate)
	if err != nil {
		return err
	}
	return r.bundle(ctx, to, about, predicateType, text)
}

// bundle signs a statement and attaches it in the manner of cosign. It does nothing where nothing is signed.
func (r *release) bundle(ctx context.Context, to layout.Path, about v1.Descriptor, predicateType string, text []byte) error {
	if r.with == nil {
		return nil
	}
	signed, err := r.with.statement(ctx, text)
	if err != nil {
		return err
	}
	return attach(to, about, bundleType, signed, map[string]string{"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": predicateType})
}

// programOf reads the program from the one layer of its image.
func programOf(index v1.ImageIndex, digest v1.Hash, program string) (*program, error) {
	image, err := index.Image(digest)
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != 1 {
		return nil, fmt.Errorf("reading image %s: one layer is expected, found %d", digest, len(layers))
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		return nil, err
	}
	out, err := read(content, program)
	return out, errors.Join(err, content.Close())
}

// push sends each image to its repository under its tag, and what refers to it by digest.
func (r *release) push(ctx context.Context) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	layouts, err := r.layouts()
	if err != nil {
		return err
	}
	for _, folder := range layouts {
		opened, descriptor, tag, err := openLayout(folder)
		if err != nil {
			return fmt.Errorf("pushing %s: %w", folder, err)
		}
		top, err := opened.ImageIndex()
		if err != nil {
			return fmt.Errorf("pushing %s: %w", folder, err)
		}
		index, err := top.ImageIndex(descriptor.Digest)
		if err != nil {
			return fmt.Errorf("pushing %s: %w", folder, err)
		}
		if err := remote.WriteIndex(tag, index, options...); err != nil {
			return fmt.Errorf("pushing %s: %w", tag, err)
		}
		listed, err := top.IndexManifest()
		if err != nil {
			return fmt.Errorf("pushing %s: %w", folder, err)
		}
		for _, d := range listed.Manifests {
			if d.ArtifactType == "" {
				continue
			}
			artifact, err := top.Image(d.Digest)
			if err != nil {
				return fmt.Errorf("pushing %s: %w", d.Digest, err)
			}
			if err := remote.Write(tag.Digest(d.Digest.String()), artifact, options...); err != nil {
				return fmt.Errorf("pushing %s to %s: %w", d.Digest, tag.Repository, err)
			}
		}
		fmt.Fprintln(r.out, tag.Digest(descriptor.Digest.String()))
	}
	return nil
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// manifest is an image manifest with the field artifactType, which the library's type lacks.
type manifest struct {
	v1.Manifest
	ArtifactType string `json:"artifactType"`
}

// attach adds an artifact to a layout that refers to a subject in it. Equal input gives an equal digest.
func attach(to layout.Path, subject v1.Descriptor, mediaType string, content []byte, annotations map[string]string) error {
	// Registries without the referrers API get the type of the artifact from that of its configuration.
	config, err := blob(to, mediaType, []byte("{}"))
	if err != nil {
		return err
	}
	layer, err := blob(to, mediaType, content)
	if err != nil {
		return err
	}
	m := manifest{ArtifactType: mediaType, Manifest: v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{layer}, Annotations: annotations,
		Subject: &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	}}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	descriptor, err := blob(to, string(types.OCIManifestSchema1), text)
	if err != nil {
		return err
	}
	descriptor.ArtifactType, descriptor.Annotations = mediaType, annotations
	return to.AppendDescriptor(descriptor)
}

// blob writes content into a layout.
func blob(to layout.Path, mediaType string, content []byte) (v1.Descriptor, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Descriptor{}, err
	}
	if err := to.WriteBlob(digest, io.NopCloser(bytes.NewReader(content))); err != nil {
		return v1.Descriptor{}, fmt.Errorf("writing %s to %s: %w", digest, to, err)
	}
	return v1.Descriptor{MediaType: types.MediaType(mediaType), Digest: digest, Size: size}, nil
}

package chart

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Image is a published image, as the values of a chart name it.
type Image struct {
	// Repository is its registry and path, such as ghcr.io/slipway-k8s/slipway-launcher. The last element is the program.
	Repository string
	// Digest of the image for all architectures, such as sha256:0123.
	Digest string
}

// ParseImages reads what `make images` writes into images.txt: a line REPOSITORY:TAG@DIGEST for each image.
func ParseImages(text []byte) ([]Image, error) {
	var out []Image
	for line := range strings.FieldsSeq(string(text)) {
		named, err := reference.ParseNamed(line)
		if err != nil {
			return nil, fmt.Errorf("reading image %q: %w", line, err)
		}
		digested, ok := named.(reference.Digested)
		if !ok {
			return nil, fmt.Errorf("reading image %q: a digest is expected", line)
		}
		out = append(out, Image{Repository: named.Name(), Digest: digested.Digest().String()})
	}
	return out, nil
}

// pin writes the images into the chart's values.yaml, in place: comments and order stay. Each image of the values must be among them, and each
// of them must be in the values.
func pin(loaded *chart.Chart, images []Image) error {
	at := slices.IndexFunc(loaded.Raw, func(f *chart.File) bool { return f.Name == chartutil.ValuesfileName })
	if at < 0 {
		return fmt.Errorf("pinning images of chart %s: values.yaml is expected", loaded.Name())
	}
	var document yaml.Node
	if err := yaml.Unmarshal(loaded.Raw[at].Data, &document); err != nil {
		return fmt.Errorf("pinning images of chart %s: %w", loaded.Name(), err)
	}
	lines := bytes.Split(loaded.Raw[at].Data, []byte("\n"))
	pinned := 0
	for _, values := range imageValues(&document) {
		repository, digest := values["repository"], values["digest"]
		i := slices.IndexFunc(images, func(i Image) bool { return path.Base(i.Repository) == path.Base(repository.Value) })
		if i < 0 {
			return fmt.Errorf("pinning images of chart %s: no digest of %s", loaded.Name(), repository.Value)
		}
		set(lines, repository, images[i].Repository)
		set(lines, digest, images[i].Digest)
		pinned++
	}
	if pinned != len(images) {
		return fmt.Errorf("pinning images of chart %s: its values have %d images, %d are expected", loaded.Name(), pinned, len(images))
	}
	loaded.Raw[at].Data = bytes.Join(lines, []byte("\n"))
	return yaml.Unmarshal(loaded.Raw[at].Data, &loaded.Values)
}

// imageValues returns the mappings that have a repository and a digest, by their keys.
func imageValues(n *yaml.Node) []map[string]*yaml.Node {
	var out []map[string]*yaml.Node
	if n.Kind == yaml.MappingNode {
		keys := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			keys[n.Content[i].Value] = n.Content[i+1]
		}
		if keys["repository"] != nil && keys["digest"] != nil {
			out = append(out, keys)
		}
	}
	for _, child := range n.Content {
		out = append(out, imageValues(child)...)
	}
	return out
}

// set writes a value over that of a node, which ends its line.
func set(lines [][]byte, n *yaml.Node, value string) {
	line := lines[n.Line-1]
	lines[n.Line-1] = append(line[:n.Column-1:n.Column-1], value...)
}

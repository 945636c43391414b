// Package chart renders and packs the Helm charts of manifests/charts with Helm's own library: for tests, for the kustomize base, which is
// the rendered chart, and for `make charts`. No binary of slipway imports it.
package chart

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/manifests"
)

// Release is one installation of a chart.
type Release struct {
	// Chart is the folder of the chart.
	Chart string
	// Name and Namespace of the release.
	Name, Namespace string
	// Values override the chart's own.
	Values map[string]any
}

// Render does what `helm template` does: it returns the documents of all templates in the order of their files, after checking the values
// with the schema.
func (r Release) Render() ([][]byte, error) {
	loaded, err := loader.Load(r.Chart)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, IsInstall: true, Revision: 1}
	values, err := chartutil.ToRenderValues(loaded, r.Values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", r.Chart, err)
	}
	rendered, err := engine.Engine{}.Render(loaded, values)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		documents, err := split([]byte(rendered[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, documents...)
	}
	return out, nil
}

// split leaves out documents without an object.
func split(text []byte) ([][]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var out [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var object map[string]any
		if err := yaml.UnmarshalStrict(document, &object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if len(object) > 0 {
			out = append(out, document)
		}
	}
}

// Pack writes the chart of a folder as Helm's archive and returns its path. The chart slipway-crds gets Karpenter's CRDs from Karpenter's
// modules. A non-empty version becomes the chart's version and its appVersion. Images, if there are any, are named by their digests.
func Pack(folder, version, into string, images []Image) (string, error) {
	loaded, err := loader.Load(folder)
	if err != nil {
		return "", err
	}
	if filepath.Base(folder) == "slipway-crds" {
		if loaded.Templates, err = CRDs(); err != nil {
			return "", err
		}
	}
	if version != "" {
		loaded.Metadata.Version, loaded.Metadata.AppVersion = strings.TrimPrefix(version, "v"), version
	}
	if len(images) > 0 {
		if err := pin(loaded, images); err != nil {
			return "", err
		}
	}
	if err := loaded.Validate(); err != nil {
		return "", err
	}
	return chartutil.Save(loaded, into)
}

// CRDs returns Karpenter's CRDs as templates of a chart. Removing the chart keeps them, and so every NodePool.
func CRDs() ([]*chart.File, error) {
	var out []*chart.File
	for _, crd := range manifests.CRDs() {
		if crd.Annotations == nil {
			crd.Annotations = map[string]string{}
		}
		crd.Annotations["helm.sh/resource-policy"] = "keep"
		text, err := yaml.Marshal(crd)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(text, []byte("{{")) {
			return nil, fmt.Errorf("CRD %s has braces that Helm would read", crd.Name)
		}
		out = append(out, &chart.File{Name: "templates/" + crd.Name + ".yaml", Data: text})
	}
	return out, nil
}

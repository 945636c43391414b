// Package krew writes the manifest by which krew, the package manager of kubectl's plugins, installs slipway's command line.
package krew

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Archive is a packed command line for one platform.
type Archive struct {
	// OS and Architecture are GOOS and GOARCH.
	OS, Architecture string
	// Name of the file.
	Name string
	// Content of the file.
	Content []byte
}

// plugin is krew's API type Plugin, of sigs.k8s.io/krew/pkg/index.
type plugin struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
	Spec            spec     `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector metav1.LabelSelector `json:"selector"`
	URI      string               `json:"uri"`
	SHA256   string               `json:"sha256"`
	Files    []file               `json:"files"`
	Bin      string               `json:"bin"`
}

type file struct {
	From string `json:"from"`
	To   string `json:"to"`
}

var version = regexp.MustCompile(`^v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)

// Manifest returns the plugin's manifest for a version, whose archives are in the release of the repository.
func Manifest(release, repository string, archives []Archive) ([]byte, error) {
	if !version.MatchString(release) {
		return nil, fmt.Errorf("writing the krew manifest: version %q: MAJOR.MINOR.PATCH is expected", release)
	}
	tag := "v" + strings.TrimPrefix(release, "v")
	p := plugin{
		TypeMeta: metav1.TypeMeta{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"},
		Metadata: metadata{Name: "slipway"},
		Spec: spec{
			Version: tag, Homepage: repository,
			ShortDescription: "Show and predict the nodes that slipway launches",
			Description: "Shows why a pod waits and what is launched for it, lists nodes with their cost,\n" +
				"and simulates launches and consolidation for a cluster or for manifests.\n",
		},
	}
	for _, a := range archives {
		sum := sha256.Sum256(a.Content)
		p.Spec.Platforms = append(p.Spec.Platforms, platform{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"os": a.OS, "arch": a.Architecture}},
			URI:      repository + "/releases/download/" + tag + "/" + a.Name,
			SHA256:   hex.EncodeToString(sum[:]),
			Files:    []file{{From: "slipway", To: "."}, {From: "LICENSE", To: "."}},
			Bin:      "slipway",
		})
	}
	return yaml.Marshal(p)
}

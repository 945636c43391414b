package manifests

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed admission/*.yaml iam/*.json rbac/*.yaml samples/*.yaml samples/buffers/*.yaml samples/policies/*.yaml scheduler/*.yaml
var files embed.FS

// Samples returns the files of samples/.
func Samples() (fs.FS, error) { return fs.Sub(files, "samples") }

// Documents returns the YAML documents of one embedded file, such as "samples/nodepool.yaml".
func Documents(name string) ([][]byte, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var documents [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		documents = append(documents, document)
	}
}

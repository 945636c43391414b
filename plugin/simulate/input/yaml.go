package input

import (
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/internal/manifest"
)

// yamlToJSON returns a YAML document as JSON. Its aliases are bounded. Numbers that JSON does not have become strings, so that the objects
// with such a field are left out, and not the file.
func yamlToJSON(document []byte) ([]byte, error) {
	if err := manifest.Check(document); err != nil {
		return nil, err
	}
	out, err := yaml.YAMLToJSON(document)
	if err == nil {
		return out, nil
	}
	finite, changed := withoutInfinity(document)
	if !changed {
		return nil, err
	}
	return yaml.YAMLToJSON(finite)
}

// withoutInfinity returns the document with .inf and .nan as strings, and whether it has any.
func withoutInfinity(document []byte) (finite []byte, changed bool) {
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(document, &root); err != nil || !quoteInfinity(&root) {
		return nil, false
	}
	finite, err := yamlv3.Marshal(&root)
	return finite, err == nil
}

func quoteInfinity(n *yamlv3.Node) (changed bool) {
	if n.Kind == yamlv3.ScalarNode && n.ShortTag() == "!!float" {
		switch strings.ToLower(strings.TrimLeft(n.Value, "+-")) {
		case ".inf", ".nan":
			n.Tag, n.Style = "!!str", yamlv3.DoubleQuotedStyle
			return true
		}
	}
	for _, child := range n.Content {
		changed = quoteInfinity(child) || changed
	}
	return changed
}

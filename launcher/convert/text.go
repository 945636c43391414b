package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/internal/manifest"
)

// decode parses YAML as Kubernetes does; numbers keep their text.
func decode(document []byte) (any, error) {
	if err := manifest.Check(document); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return value, nil
}

// comments are a document's comments that can be kept: at its head, and at fields by key and value.
type comments struct {
	head   string
	fields map[place]comment
}

// place is the position of a comment. The value is empty for lists and objects.
type place struct{ key, value string }

// anyValue is the value of a field that was renamed, because its value often changed too.
const anyValue = "*"

type comment struct{ above, beside string }

// readComments returns no comments if the text cannot be parsed: comments are optional.
func readComments(text []byte) comments {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(text, &document); err != nil {
		return comments{}
	}
	out := comments{head: document.HeadComment, fields: map[place]comment{}}
	out.collect(&document, "")
	return out
}

func (c *comments) collect(node *yamlv3.Node, within string) {
	for i, child := range node.Content {
		switch node.Kind {
		case yamlv3.MappingNode:
			if i%2 == 1 {
				key := node.Content[i-1]
				c.note(key.Value, child, comment{above: key.HeadComment, beside: firstNonEmpty(key.LineComment, child.LineComment)})
				c.collect(child, key.Value)
			}
		case yamlv3.SequenceNode:
			c.note(within+"[]", child, comment{above: child.HeadComment, beside: child.LineComment})
			c.collect(child, within)
		default:
			c.collect(child, within)
		}
	}
}

func (c *comments) note(key string, node *yamlv3.Node, found comment) {
	if found == (comment{}) {
		return
	}
	// The first comment of a document's first field belongs to the document.
	if found.above != "" && c.head == "" && key == "apiVersion" {
		c.head, found.above = found.above, ""
	}
	name := renamedField(key)
	c.fields[placeOf(name, node)] = found
	c.fields[place{name, ""}] = found
	if name != key {
		c.fields[place{name, anyValue}] = found
	}
}

func placeOf(key string, node *yamlv3.Node) place {
	if node.Kind == yamlv3.ScalarNode {
		return place{key, node.Value}
	}
	return place{key, ""}
}

// renamedField returns the new field that a comment of an old field belongs to.
func renamedField(key string) string {
	names := map[string]string{
		"subnetSelector": "subnetSelectorTerms", "securityGroupSelector": "securityGroupSelectorTerms", "amiSelector": "amiSelectorTerms",
		"ttlSecondsAfterEmpty": "consolidateAfter", "ttlSecondsUntilExpired": "expireAfter", "providerRef": "nodeClassRef",
		"kubeletConfiguration": "kubelet", "consolidation": "consolidationPolicy", "amiFamily": "amiSelectorTerms",
	}
	if name, ok := names[key]; ok {
		return name
	}
	return key
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// encode writes an object with sorted fields, and the comments whose fields still exist, each once.
func encode(object map[string]any, c comments) ([]byte, error) {
	node, err := nodeOf(object)
	if err != nil {
		return nil, err
	}
	carry(node, "", maps.Clone(c.fields))
	var out bytes.Buffer
	if c.head != "" {
		out.WriteString(strings.TrimRight(c.head, "\n") + "\n")
	}
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(node); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func carry(node *yamlv3.Node, within string, left map[place]comment) {
	put := func(key string, holder, value *yamlv3.Node) {
		found, ok := left[placeOf(key, value)]
		if !ok && value.Kind != yamlv3.ScalarNode {
			found, ok = left[place{key, ""}]
		}
		if !ok {
			found, ok = left[place{key, anyValue}]
		}
		if !ok {
			return
		}
		holder.HeadComment = found.above
		if value.Kind == yamlv3.ScalarNode {
			value.LineComment = found.beside
		} else {
			holder.LineComment = found.beside
		}
		maps.DeleteFunc(left, func(p place, c comment) bool { return p.key == key && c == found })
	}
	for i, child := range node.Content {
		switch {
		case node.Kind == yamlv3.MappingNode && i%2 == 1:
			key := node.Content[i-1]
			put(key.Value, key, child)
			carry(child, key.Value, left)
		case node.Kind == yamlv3.SequenceNode:
			put(within+"[]", child, child)
			carry(child, within, left)
		}
	}
}

// nodeOf returns a value as YAML, with sorted keys.
func nodeOf(value any) (*yamlv3.Node, error) {
	switch v := value.(type) {
	case map[string]any:
		out := &yamlv3.Node{Kind: yamlv3.MappingNode}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			var keyNode yamlv3.Node
			if err := keyNode.Encode(key); err != nil {
				return nil, err
			}
			child, err := nodeOf(v[key])
			if err != nil {
				return nil, err
			}
			out.Content = append(out.Content, &keyNode, child)
		}
		return out, nil
	case []any:
		out := &yamlv3.Node{Kind: yamlv3.SequenceNode}
		for _, e := range v {
			child, err := nodeOf(e)
			if err != nil {
				return nil, err
			}
			out.Content = append(out.Content, child)
		}
		return out, nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return &yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: tag, Value: v.String()}, nil
	}
	var out yamlv3.Node
	err := out.Encode(value)
	return &out, err
}

func deepCopy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			out[key] = deepCopy(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = deepCopy(e)
		}
		return out
	}
	return value
}

// Package manifest reads YAML that others wrote at a bounded cost. It is pure.
package manifest

import (
	"bytes"
	"errors"
	"fmt"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Aliases may repeat a document's own text this often, and beyond that freeBytes: a list of objects that share a spec repeats less, and
// what is decoded takes about ten times the memory of its text.
const (
	mostTimes = 3
	freeBytes = 4 << 20
)

// perValue is what each value counts beside its text: an empty one takes memory as well.
const perValue = 8

// errEndless is the error of an alias that is a part of what it names.
var errEndless = errors.New("an alias is within the value that it names")

// Check returns an error if the aliases of a YAML document repeat more than can be read at a reasonable cost. It is nil for a document that
// is not YAML: the decoder returns that error.
func Check(document []byte) error {
	if !bytes.Contains(document, []byte("*")) || !bytes.Contains(document, []byte("&")) {
		return nil
	}
	var root yamlv3.Node
	_ = yamlv3.Unmarshal(document, &root) // Of a document that is not YAML it has no values.
	most := mostTimes*len(document) + freeBytes
	m := measure{sizes: map[*yamlv3.Node]int{}, most: most}
	size, err := m.size(&root)
	if err != nil {
		return err
	}
	if size > most {
		return fmt.Errorf("reading aliases: they repeat the %d bytes of the document to more than %d", len(document), most)
	}
	return nil
}

// measure computes the sizes of values with all that their aliases name.
type measure struct {
	// sizes of the values that have been measured; -1 for one that is being measured.
	sizes map[*yamlv3.Node]int
	most  int
}

// size is at most a little more than m.most, whatever the value.
func (m *measure) size(of *yamlv3.Node) (int, error) {
	if known, ok := m.sizes[of]; ok {
		if known < 0 {
			return 0, fmt.Errorf("line %d: %w", of.Line, errEndless)
		}
		return known, nil
	}
	m.sizes[of] = -1
	total := perValue + len(of.Value)
	parts := of.Content
	if of.Kind == yamlv3.AliasNode {
		parts = []*yamlv3.Node{of.Alias}
	}
	for _, part := range parts {
		n, err := m.size(part)
		if err != nil {
			return 0, err
		}
		total = min(total+n, m.most+1)
	}
	m.sizes[of] = total
	return total, nil
}

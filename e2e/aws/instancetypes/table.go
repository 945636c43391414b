package instancetypes

import (
	"math"

	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
)

// Type is what there is to know of an instance type.
type Type = builtin.Type

// The kinds of accelerators.
const (
	// GPU is a graphics processor.
	GPU = builtin.GPU
	// Neuron is AWS's Inferentia or Trainium.
	Neuron = builtin.Neuron
)

// Table is all instance types.
type Table struct {
	types  []Type
	byName map[string]int
	seed   int64
}

// New reads the table. The seed is that of the spot market and of the zones that lack types.
func New(seed int64) (*Table, error) {
	types, err := builtin.Types()
	if err != nil {
		return nil, err
	}
	t := &Table{types: types, byName: make(map[string]int, len(types)), seed: seed}
	for i := range types {
		t.byName[types[i].Name] = i
	}
	return t, nil
}

// All returns the types, sorted by name. The caller must not change them.
func (t *Table) All() []Type { return t.types }

// Get returns the type of a name.
func (t *Table) Get(name string) (Type, bool) {
	i, ok := t.byName[name]
	if !ok {
		return Type{}, false
	}
	return t.types[i], true
}

// round to n digits behind the point, as price lists are.
func round(x float64, n int) float64 {
	p := math.Pow10(n)
	return math.Round(x*p) / p
}

package consolidate_test

import (
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// A node costs what its NodePool's class and declared cost make of its offering. A node of a class that no longer offers it costs what another
// class says.
func TestPriceIn(t *testing.T) {
	types := func(name string, price float64) []catalog.InstanceType {
		return []catalog.InstanceType{{Name: name, Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", Price: price}}}}
	}
	cat := catalog.State{
		NodePools:     map[string]catalog.NodePool{"p": {Name: "p", NodeClass: "large-disks", Declared: catalog.Declared{NodeCost: 0.5}}},
		InstanceTypes: map[string][]catalog.InstanceType{"a-class": append(types("m", 1), types("old", 3)...), "large-disks": types("m", 2)},
	}
	for _, tc := range []struct {
		pool, instanceType string
		want               float64
	}{{"p", "m", 2.5}, {"p", "old", 3.5}, {"p", "none", 0}, {"other", "m", 1}} {
		o := consolidate.Offer{NodePool: tc.pool, InstanceType: tc.instanceType, Zone: "a", CapacityType: "spot"}
		if got := consolidate.PriceIn(cat, o); got != tc.want {
			t.Errorf("%s of NodePool %s costs %v, want %v", tc.instanceType, tc.pool, got, tc.want)
		}
	}
}

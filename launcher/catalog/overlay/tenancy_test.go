package overlay_test

import (
	"math"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
)

// A NodePool of dedicated tenancy has the prices of such instances, with its volumes at theirs; a price of a NodeOverlay stays. Other NodePools of the class
// keep the list of the class, and the same list is made of the same list.
func TestDedicated(t *testing.T) {
	list := []catalog.InstanceType{
		{Name: "m5.large", DedicatedShare: 0.1, Charges: catalog.Charges{Volumes: 0.002}, Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "on-demand", Price: 0.102}, {Zone: "a", CapacityType: "spot", Price: 0.032}, {Zone: "b", CapacityType: "on-demand", Price: 0.05, Overlaid: true},
		}},
		{Name: "m5.metal", Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: 4.6}}},
	}
	pool := func(name string, tenancy string) overlay.Pool {
		return overlay.Pool{Name: name, NodeClass: "default", Labels: map[string]string{catalog.LabelInstanceTenancy: tenancy}}
	}
	in := overlay.Input{Types: map[string][]catalog.InstanceType{"default": list}, Pools: []overlay.Pool{pool("alone", "dedicated"), pool("shared", ""), pool("too", "dedicated")}}
	made := overlay.Repriced{}
	got := overlay.Result{}.Dedicated(in, made)
	if len(got.Keys) != 2 || got.Keys["alone"] != "default//dedicated" || got.Keys["too"] != "default//dedicated" || len(got.Lists) != 1 {
		t.Fatalf("keys %v, %d lists", got.Keys, len(got.Lists))
	}
	own := got.Lists["default//dedicated"]
	for i, want := range []float64{0.112, 0.035, 0.05} {
		if price := own[0].Offerings[i].Price; math.Abs(price-want) > 1e-9 {
			t.Errorf("offering %d costs %v, want %v", i, price, want)
		}
	}
	if own[1].Offerings[0].Price != 4.6 || list[0].Offerings[0].Price != 0.102 {
		t.Errorf("bare metal costs %v, the class's list has %v", own[1].Offerings[0].Price, list[0].Offerings[0].Price)
	}
	if again := (overlay.Result{}).Dedicated(in, made); &again.Lists["default//dedicated"][0] != &own[0] {
		t.Error("the same list is made again")
	}
	over := overlay.Result{Keys: map[string]string{"alone": "default/1"}, Lists: map[string][]catalog.InstanceType{"default/1": list[:1]}}
	if got = over.Dedicated(in, made); got.Keys["alone"] != "default/1//dedicated" || len(got.Lists) != 3 || over.Keys["alone"] != "default/1" {
		t.Errorf("over NodeOverlays: keys %v, %d lists", got.Keys, len(got.Lists))
	}
	in.Types["default"] = []catalog.InstanceType{{Name: "m5.large"}}
	if got = (overlay.Result{}).Dedicated(in, made); len(got.Keys) != 0 || len(made) != 0 {
		t.Errorf("without prices of dedicated tenancy: keys %v, %d lists kept", got.Keys, len(made))
	}
}

// A NodePool that is named dedicated keeps the list of its NodeOverlays beside one of dedicated tenancy.
func TestNodePoolNamedDedicated(t *testing.T) {
	list := []catalog.InstanceType{{Name: "m5.large", DedicatedShare: 0.1, Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: 0.1}}}}
	const key = "default/dedicated"
	in := overlay.Input{Types: map[string][]catalog.InstanceType{"default": list}, Pools: []overlay.Pool{
		{Name: "dedicated", NodeClass: "default"},
		{Name: "alone", NodeClass: "default", Labels: map[string]string{catalog.LabelInstanceTenancy: "dedicated"}},
	}}
	named := overlay.Result{Keys: map[string]string{"dedicated": key}, Lists: map[string][]catalog.InstanceType{key: list}}
	got := named.Dedicated(in, overlay.Repriced{})
	if got.Keys["alone"] == got.Keys["dedicated"] || got.Lists[key][0].Offerings[0].Price != 0.1 {
		t.Errorf("keys %v, the list of NodePool dedicated costs %v", got.Keys, got.Lists[key][0].Offerings[0].Price)
	}
}

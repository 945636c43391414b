package plan_test

import (
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// A claim says why it is not of the type with the lowest list price: what a node of that costs, what it has too little of, or that EC2 refuses it.
func TestPassedOver(t *testing.T) {
	offering := func(cat catalog.State, name string) *catalog.Offering {
		types := cat.InstanceTypes["class"]
		for i := range types {
			if types[i].Name == name {
				return &types[i].Offerings[0]
			}
		}
		t.Fatalf("no type %s", name)
		return nil
	}
	for name, c := range map[string]struct {
		milliCPU, mib int
		change        func(cat catalog.State)
		chosen, want  string
	}{
		"it is chosen": {100, 512, nil, "t.nano", ""},
		"burst":        {1800, 512, nil, "m.2", "t.nano, on-demand in us-east-1a, lists 0.0050 USD/h, the lowest price: its node costs 0.0870 (instance 0.0050 + volumes 0.0020 + burst 0.0800)"},
		"memory":       {100, 1536, nil, "t.small", "t.nano, on-demand in us-east-1a, lists 0.0050 USD/h, the lowest price: too little memory, its node has 1Gi for the 1.5Gi of the pods"},
		"volumes": {100, 512, func(cat catalog.State) {
			cat.InstanceTypes["class"][5].Charges.Volumes += 0.03 // t.nano's node has a large one.
			offering(cat, "t.nano").Price += 0.03
		}, "t.small", "its node costs 0.0370 (instance 0.0050 + volumes 0.0320)"},
		"bare metal": {100, 512, func(cat catalog.State) {
			cat.InstanceTypes["class"][5].Labels[catalog.LabelInstanceSize] = "metal"
			offering(cat, "t.nano").Price = 0.021
		}, "t.small", "its node would cost 0.0210, but it is bare metal, and another type costs little more"},
		"refused": {100, 512, func(cat catalog.State) { offering(cat, "t.nano").Available = false }, "t.small", "its node would cost 0.0070, but EC2 has refused it"},
	} {
		t.Run(name, func(t *testing.T) {
			cat := charged(0, catalog.Charges{Volumes: 0.002})
			if c.change != nil {
				c.change(cat)
			}
			got := plan.Make(t.Context(), pending(cat, 1, c.milliCPU, c.mib))
			if len(got.Claims) != 1 || got.Claims[0].Expected.InstanceType != c.chosen {
				t.Fatalf("claims %+v, want one of %s", got.Claims, c.chosen)
			}
			if why := got.Claims[0].PassedOver; why != c.want && (c.want == "" || !strings.HasSuffix(why, c.want)) {
				t.Errorf("passed over: %q, want %q", why, c.want)
			}
		})
	}
}

// Pods that may not run on the type with the lowest list price by its labels are not said to have passed it over.
func TestPassedOverKeepsToLabels(t *testing.T) {
	in := pending(charged(0, catalog.Charges{Volumes: 0.002}), 1, 100, 512)
	in.Classes[0].Pod.Spec.NodeSelector = map[string]string{"node.kubernetes.io/instance-type": "m.4"}
	got := plan.Make(t.Context(), in)
	if len(got.Claims) != 1 || got.Claims[0].PassedOver != "" {
		t.Errorf("claims %+v, want one that passed nothing over", got.Claims)
	}
}

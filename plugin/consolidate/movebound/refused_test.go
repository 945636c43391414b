package movebound_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/movebound"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// The decision has what the launch would refuse: a spot node is replaced by another one only where 15 instance types are cheaper, and minValues hold. The reason of
// the node that stays is that of the launch, and the planned claims stay as they are.
func TestDecisionKnowsWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		// types is how many instance types the claim names, nodes how many nodes go, with a price of 21 together: type u and those behind it cost more.
		types, nodes int
		capacity     string
		// min is how many families minValues asks for; two types are a family.
		min        int32
		bestEffort bool
		// refused is a part of the reason; empty if the nodes go.
		refused string
	}{
		{name: "15 types are cheaper", types: 15, nodes: 1, capacity: "spot"},
		{name: "14 types are cheaper", types: 14, nodes: 1, capacity: "spot", refused: "14 instance types would be cheaper, a spot node is replaced by another one only where there are 15"},
		{name: "two spot nodes become one", types: 2, nodes: 2, capacity: "spot"},
		{name: "an on-demand node becomes another", types: 2, nodes: 1, capacity: "on-demand"},
		{name: "enough families are cheaper", types: 26, nodes: 1, capacity: "on-demand", min: 10},
		{name: "too few families are cheaper", types: 26, nodes: 1, capacity: "on-demand", min: 11, refused: "minValues of NodePool pool asks for 11 values of family"},
		{name: "BestEffort takes what is left", types: 26, nodes: 1, capacity: "on-demand", min: 11, bestEffort: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, in := planned(c.types, c.capacity, c.min)
			in.MinValuesBestEffort = c.bestEffort
			o, given := consolidate.DefaultOptions(), fmt.Sprint(p.Claims)
			o.SpotToSpot = true
			var fleet []consolidate.Node
			for i := range c.nodes {
				name := fmt.Sprint("old", i)
				fleet = append(fleet, consolidate.Node{
					Name: name, Policy: consolidate.WhenEmptyOrUnderutilized, Pods: []consolidate.Pod{{Name: "web/" + name, Weight: 1}},
					Offer: consolidate.Offer{NodePool: "pool", InstanceType: "old", Zone: "a", CapacityType: c.capacity, Price: 21 / float64(c.nodes)},
				})
			}
			d, err := consolidate.Decide(t.Context(), fleet, o, func(_ context.Context, gone, _ []string) (consolidate.Answer, error) {
				r := consolidate.Replacement{Name: "new", Offer: consolidate.Offer{NodePool: "pool", InstanceType: "a", Zone: "a", CapacityType: c.capacity, Price: 1}}
				for _, name := range gone {
					r.Pods = append(r.Pods, "web/"+name)
				}
				return consolidate.Answer{Replacements: []consolidate.Replacement{r}, Refused: movebound.Refused(&p, &in)}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(p.Claims) != given {
				t.Error("the planned claims have changed")
			}
			switch {
			case c.refused == "":
				if len(d.Moves) != 1 || len(d.Moves[0].Nodes) != c.nodes {
					t.Errorf("decided %+v, want one move of all nodes", d)
				}
			case len(d.Moves) != 0 || len(d.Kept) != 1 || !strings.Contains(d.Kept[0].Reason, c.refused):
				t.Errorf("decided %+v, want the node to stay: %s", d, c.refused)
			default:
				b := movebound.Bound{Most: 20, SpotToSpot: true, Going: []consolidate.Offer{fleet[0].Offer}, Catalog: in.Catalog}
				if diff := cmp.Diff(b.Keep(p.Claims), d.Kept[0].Reason); diff != "" {
					t.Errorf("the launch has another reason (-launch +decision):\n%s", diff)
				}
			}
		})
	}
}

// planned is a plan of one claim that names as many types, the first at 1 USD per hour and each at one more, and asks for families.
func planned(n int, capacityType string, families int32) (plan.Plan, plan.Input) {
	types, names := lettered(n, capacityType)
	in := func(key string, values ...string) catalog.Requirement {
		return catalog.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	c := plan.Claim{
		Name: "new", NodePool: "pool", Alternatives: names, Expected: plan.Offer{InstanceType: "a", Zone: "a", CapacityType: capacityType, Price: 1},
		Requirements: []catalog.Requirement{
			in(corev1.LabelInstanceTypeStable, names...), in(corev1.LabelTopologyZone, "a"), in("karpenter.sh/capacity-type", capacityType),
			{Key: "family", Operator: corev1.NodeSelectorOpExists, MinValues: families},
		},
	}
	return plan.Plan{Claims: []plan.Claim{c}}, plan.Input{Catalog: catalog.State{
		NodePools:     map[string]catalog.NodePool{"pool": {Name: "pool", NodeClass: "class"}},
		InstanceTypes: map[string][]catalog.InstanceType{"class": types},
	}}
}

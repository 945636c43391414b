package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// A claim's requirements select among reservations by ID, type and whether they can be interrupted, and one call buys of one kind: ordinary
// ones first, then one Capacity Block, then those that their owner may reclaim, then on-demand.
func TestReservations(t *testing.T) {
	reserved := func(id, kind string, interruptible bool) catalog.Offering {
		return catalog.Offering{
			Zone: "a", CapacityType: "reserved", Price: 1e-7, Available: true, ReservationID: id, ReservationType: kind, Interruptible: interruptible,
		}
	}
	types := []catalog.InstanceType{{Name: "m7g.large", Offerings: []catalog.Offering{
		{Zone: "a", CapacityType: "on-demand", Price: 0.08, Available: true},
		reserved("cr-1-lent", "default", true), reserved("cr-2-block", "capacity-block", false), reserved("cr-3-block", "capacity-block", false),
		reserved("cr-4", "default", false), reserved("cr-5", "default", false),
	}}}
	not := func(key, value string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: []string{value}}
	}
	const kind, id, interruptible = catalog.LabelReservationType, catalog.LabelReservationID, catalog.LabelReservationInterruptible
	for _, tc := range []struct {
		name string
		reqs []karpv1.NodeSelectorRequirementWithMinValues
		want []string
	}{
		{"no requirement", nil, []string{"cr-4", "cr-5"}},
		{"an ID", []karpv1.NodeSelectorRequirementWithMinValues{requirement(id, "cr-5")}, []string{"cr-5"}},
		{"blocks", []karpv1.NodeSelectorRequirementWithMinValues{requirement(kind, "capacity-block")}, []string{"cr-2-block"}},
		{"no ordinary one", []karpv1.NodeSelectorRequirementWithMinValues{not(id, "cr-4"), not(id, "cr-5")}, []string{"cr-2-block"}},
		{"interruptible", []karpv1.NodeSelectorRequirementWithMinValues{requirement(interruptible, "true")}, []string{"cr-1-lent"}},
		{"blocks that are interruptible", []karpv1.NodeSelectorRequirementWithMinValues{requirement(kind, "capacity-block"), requirement(interruptible, "true")}, nil},
		{"none, which on-demand meets", []karpv1.NodeSelectorRequirementWithMinValues{not(interruptible, "true"), not(interruptible, "false")}, []string{""}},
	} {
		claim := &karpv1.NodeClaim{}
		claim.Spec.Requirements = tc.reqs
		choice, err := Search{Claim: claim, Types: types}.Options()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range cloud.OfFirstKind(choice.Options) {
			got = append(got, o.Reservation.ID)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

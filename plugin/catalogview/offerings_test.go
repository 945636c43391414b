package catalogview

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

func twoTypes() map[string][]catalog.InstanceType {
	offer := func(zone string) catalog.Offering {
		return catalog.Offering{Zone: zone, CapacityType: "spot", Price: 1, Available: true}
	}
	return map[string][]catalog.InstanceType{
		"default": {{Name: "a", Offerings: []catalog.Offering{offer("z1"), offer("z2")}}, {Name: "b", Offerings: []catalog.Offering{offer("z1")}}},
		"other":   {{Name: "b", Offerings: []catalog.Offering{offer("z1")}}},
	}
}

func planOf(name, instanceType string, zones ...string) plan.Claim {
	return plan.Claim{
		Name: name, Alternatives: []string{instanceType}, Expected: plan.Offer{InstanceType: instanceType, Zone: zones[0], CapacityType: "spot"},
		Requirements: []catalog.Requirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}},
	}
}

// A failure counts against each offering of its claim and against no other, the more often the longer; a launch ends it.
func TestFailedOfferings(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 1, 0, time.UTC)
	o, types := newFailedOfferings(), twoTypes()
	fail := func(at time.Duration) {
		o.planned(planOf("n", "a", "z1", "z2"))
		o.ended(catalog.InFlightNode{NodeClaim: "n"}, true, "", start.Add(at))
	}
	expect := func(at time.Duration, available, probation bool) {
		t.Helper()
		got := o.mark(types, start.Add(at))
		for i, of := range got["default"][0].Offerings {
			if of.Available != available || of.Probation != probation || !available && of.UnavailableUntil.Before(start.Add(at)) {
				t.Errorf("after %s offering %d is available %t, on probation %t, unavailable until %s", at, i, of.Available, of.Probation, of.UnavailableUntil)
			}
		}
		if of := got["default"][1].Offerings[0]; !of.Available || of.Probation {
			t.Errorf("after %s another type is %+v", at, of)
		}
		if &got["other"][0] != &types["other"][0] {
			t.Errorf("after %s the types of another class were copied", at)
		}
	}
	expect(0, true, false)
	fail(0)
	fail(time.Second) // Under way when the first failed.
	expect(2*time.Second, false, true)
	expect(time.Minute, true, true)
	expect(4*time.Minute, true, true)
	expect(5*time.Minute, true, false)
	fail(6 * time.Minute) // The second in a row.
	expect(6*time.Minute+50*time.Second, false, true)
	expect(8*time.Minute, true, true)
	expect(11*time.Minute, true, false)
	fail(12 * time.Minute)
	fail(15 * time.Minute)
	fail(20 * time.Minute) // Held for longer than the launcher does not try it.
	expect(23*time.Minute, false, true)
	expect(29*time.Minute, true, true)
	expect(31*time.Minute, true, false)
	if n := o.onProbation(start.Add(29 * time.Minute)); n != 2 {
		t.Errorf("%d offerings are on probation, want both of the claim", n)
	}
	o.launched(catalog.InFlightNode{InstanceType: "a", Zone: "z1", CapacityType: "spot"}, "default")
	if got := o.mark(types, start.Add(29*time.Minute))["default"][0].Offerings; got[0].Probation || !got[1].Probation {
		t.Errorf("after a launch in z1 the offerings are %+v", got)
	}
	o.forget(start.Add(2 * time.Hour))
	if len(o.failures)+len(o.claims) != 0 {
		t.Errorf("%v and %v are remembered for ever", o.failures, o.claims)
	}
}

// The instance of a standby buffer was launched, and EC2 does not start it again: that counts against its own offering, and not against what might have
// been launched in its place.
func TestAStartWithoutCapacity(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 1, 0, time.UTC)
	o, types := newFailedOfferings(), twoTypes()
	o.planned(planOf("n", "a", "z1", "z2"))
	n := catalog.InFlightNode{NodeClaim: "n", InstanceType: "a", Zone: "z2", CapacityType: "spot"}
	o.launched(n, "default")
	o.ended(n, true, "", now)
	if got := o.mark(types, now)["default"][0].Offerings; !got[0].Available || got[1].Available {
		t.Errorf("the offerings are %+v, want the one in z2 to be unavailable", got)
	}
}

// A spot offering that was refused settles ten minutes later, or when what was learned of interruptions says so; a launch that works settles it.
// An on-demand offering needs no time.
func TestRefusedSpotSettles(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 1, 0, time.UTC)
	o, types := newFailedOfferings(), twoTypes()
	types["default"][0].Offerings[1].SettlesAt = start.Add(time.Hour)
	types["other"][0].Offerings[0].CapacityType = "on-demand"
	o.ended(catalog.InFlightNode{NodeClaim: "n", InstanceType: "b", Zone: "z1", CapacityType: "on-demand"}, true, "", start)
	o.planned(planOf("m", "a", "z1", "z2"))
	o.ended(catalog.InFlightNode{NodeClaim: "m"}, true, "", start)
	settles := func(at time.Duration) (out []time.Duration) {
		o.forget(start.Add(at))
		got := o.mark(types, start.Add(at))
		for _, of := range append(got["default"][0].Offerings, got["other"][0].Offerings...) {
			out = append(out, max(of.SettlesAt.Sub(start), 0))
		}
		return out
	}
	if got, want := settles(9*time.Minute), []time.Duration{10 * time.Minute, time.Hour, 0}; !slices.Equal(got, want) {
		t.Errorf("offerings settle after %v, want %v", got, want)
	}
	o.ended(catalog.InFlightNode{NodeClaim: "k", InstanceType: "a", Zone: "z1", CapacityType: "spot"}, true, "", start.Add(25*time.Minute))
	if f := o.failures[offering{"a", "z1", "spot", ""}]; f.inARow != 1 {
		t.Errorf("a refusal after a long time is the %d. in a row", f.inARow)
	}
	o.launched(catalog.InFlightNode{InstanceType: "a", Zone: "z1", CapacityType: "spot"}, "default")
	if got, want := settles(26*time.Minute), []time.Duration{0, time.Hour, 0}; !slices.Equal(got, want) {
		t.Errorf("after a launch offerings settle after %v, want %v", got, want)
	}
}

// Holds and probation grow to their bounds and no further; what has not changed is not compiled again.
func TestFailedOfferingsAreBounded(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	o := newFailedOfferings()
	for range 40 {
		o.ended(catalog.InFlightNode{NodeClaim: "n", InstanceType: "b", Zone: "z1", CapacityType: "spot"}, true, "", now)
		f := o.failures[offering{"b", "z1", "spot", ""}]
		if hold := f.heldUntil().Sub(now); hold > holdMost+holdStep || f.probationUntil().Sub(now) > probationMost {
			t.Fatalf("failure %d is held for %s", f.inARow, hold)
		}
		now = f.heldUntil()
	}
	types := twoTypes()
	if a, b := o.mark(types, now), o.mark(types, now.Add(time.Second)); &a["other"][0] != &b["other"][0] {
		t.Error("the same offerings were marked twice")
	}
	o.ended(catalog.InFlightNode{NodeClaim: "n", InstanceType: "a", Zone: "z1", CapacityType: "reserved"}, true, "", now)
	o.ended(catalog.InFlightNode{NodeClaim: "never-seen"}, true, "", now)
	if len(o.failures) != 1 {
		t.Errorf("%v", o.failures)
	}
}

// Subnets without addresses are those of one EC2NodeClass, and so is its placement group: NodePools of other classes use the offerings meanwhile. A lack of
// capacity and a quota count for all classes. A launch of the class ends what counts against it alone.
func TestAFailureOfOneClass(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 1, 0, time.UTC)
	for name, c := range map[string]struct {
		reason        string
		grouped       bool
		other, either bool
	}{
		"addresses":                   {reason: ec2error.ReasonInsufficientAddresses, other: true},
		"capacity":                    {reason: ec2error.ReasonInsufficientCapacity},
		"capacity, a placement group": {reason: ec2error.ReasonInsufficientCapacity, grouped: true, other: true},
		"a quota, a placement group":  {reason: ec2error.ReasonVCPULimit, grouped: true},
		"the role of EC2 Spot":        {reason: ec2error.ReasonSpotRole, other: true, either: true},
	} {
		t.Run(name, func(t *testing.T) {
			types := twoTypes()
			if c.grouped {
				for i := range types["default"] {
					types["default"][i].Labels = map[string]string{catalog.LabelPlacementGroupID: "pg-1"}
				}
			}
			v := New()
			v.Receive(catalog.State{InstanceTypes: types, NodePools: map[string]catalog.NodePool{
				"pool": {Name: "pool", NodeClass: "default", Ready: true}, "others": {Name: "others", NodeClass: "other", Ready: true},
			}}, now)
			claim := planOf("n", "b", "z1")
			claim.NodePool = "pool"
			v.Record(claim, now)
			expect := func(when string, own, other bool) {
				t.Helper()
				cat := v.State(nil, now)
				for pool, want := range map[string]bool{"pool": own, "others": other} {
					list := cat.TypesOf(pool)
					if of := list[len(list)-1].Offerings[0]; of.Available != want || of.Probation == want {
						t.Errorf("%s the offering of NodePool %s is available %t, on probation %t, want it available %t", when, pool, of.Available, of.Probation, want)
					}
				}
			}
			n := catalog.InFlightNode{NodeClaim: "n", NodePool: "pool", InstanceType: "b", Zone: "z1", CapacityType: "spot"}
			v.Ended(n, c.reason, now)
			expect("after the failure", c.either, c.other)
			n.NodePool = "others"
			v.Launched(n)
			expect("after a launch of the other class", c.either || !c.other, true)
			n.NodePool = "pool"
			v.Launched(n)
			expect("after a launch of its own class", true, true)
		})
	}
}

package consolidate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

func quarterPast() time.Time { return time.Date(2026, 3, 4, 12, 15, 0, 0, time.UTC) }

// A spot offering has settled half an hour after its last refusal and its probation, and when what was learned of its interruptions says so;
// on-demand offerings do not count.
func TestTroubled(t *testing.T) {
	now := quarterPast()
	offering := func(zone, capacityType string, change func(*catalog.Offering)) catalog.Offering {
		o := catalog.Offering{Zone: zone, CapacityType: capacityType, Price: 1, Available: true}
		change(&o)
		return o
	}
	got := consolidate.Troubled(catalog.State{InstanceTypes: map[string][]catalog.InstanceType{"class": {{Name: "m5.large", Offerings: []catalog.Offering{
		offering("interrupted", "spot", func(o *catalog.Offering) { o.SettlesAt = now.Add(20 * time.Minute) }),
		offering("settled", "spot", func(o *catalog.Offering) { o.SettlesAt = now.Add(-time.Minute) }),
		offering("probation", "spot", func(o *catalog.Offering) { o.Probation = true }),
		offering("refused", "spot", func(o *catalog.Offering) { o.UnavailableUntil = now.Add(time.Minute) }),
		offering("refused-before", "spot", func(o *catalog.Offering) { o.UnavailableUntil = now.Add(-time.Minute) }),
		offering("calm", "spot", func(*catalog.Offering) {}),
		offering("on-demand", "on-demand", func(o *catalog.Offering) { o.Probation = true }),
	}}}}}, now)
	want := map[string]time.Time{"interrupted": now.Add(20 * time.Minute), "probation": now.Add(30 * time.Minute), "refused": now.Add(30 * time.Minute)}
	if len(got) != len(want) {
		t.Errorf("troubled offerings %v, want %v", got, want)
	}
	for zone, until := range want {
		if !got[consolidate.SpotOffering{InstanceType: "m5.large", Zone: zone}].Equal(until) {
			t.Errorf("%s has settled at %v, want %v", zone, got[consolidate.SpotOffering{InstanceType: "m5.large", Zone: zone}], until)
		}
	}
}

// An on-demand node is replaced by a node of a spot offering that has settled, and not before; a spot node is not held up.
func TestBackToSpotWaits(t *testing.T) {
	decide := func(from string, troubled map[consolidate.SpotOffering]time.Time) consolidate.Decision {
		nodes := []consolidate.Node{{
			Name: "n", Policy: consolidate.WhenEmptyOrUnderutilized, Pods: []consolidate.Pod{{Name: "x", Weight: 1, Fresh: 1}},
			Offer: consolidate.Offer{NodePool: "p", InstanceType: "m5.large", Zone: "a", CapacityType: from, Price: 0.1},
		}}
		o := consolidate.DefaultOptions()
		o.Troubled, o.SpotToSpot = troubled, true
		got, err := consolidate.Decide(t.Context(), nodes, o, func(context.Context, []string, []string) (consolidate.Answer, error) {
			return consolidate.Answer{Replacements: []consolidate.Replacement{{
				Name: "new", Pods: []string{"x"}, Offer: consolidate.Offer{NodePool: "p", InstanceType: "m5.large", Zone: "b", CapacityType: "spot", Price: 0.03},
			}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := decide("on-demand", nil); len(got.Moves) != 1 {
		t.Errorf("moves %+v in a settled market, want one", got.Moves)
	}
	if got := decide("on-demand", map[consolidate.SpotOffering]time.Time{{InstanceType: "m5.large", Zone: "a"}: quarterPast(), {InstanceType: "m6i.large", Zone: "b"}: quarterPast()}); len(got.Moves) != 1 {
		t.Errorf("moves %+v while others have not settled, want one", got.Moves)
	}
	got := decide("on-demand", map[consolidate.SpotOffering]time.Time{{InstanceType: "m5.large", Zone: "b"}: quarterPast()})
	if len(got.Moves) != 0 || len(got.Kept) != 1 || !strings.Contains(got.Kept[0].Reason, "replaced by those from 12:15:00 UTC on") {
		t.Errorf("moves %+v and kept %+v in a zone that has not settled", got.Moves, got.Kept)
	}
}

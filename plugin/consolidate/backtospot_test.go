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

// A spot offering has settled ten minutes after its last refusal and its probation, and when what was learned of its interruptions says so;
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
	want := map[string]time.Time{"interrupted": now.Add(20 * time.Minute), "probation": now.Add(10 * time.Minute), "refused": now.Add(10 * time.Minute)}
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

// How long spot nodes last is that of the offerings for which the catalog has a time, the least of all classes.
func TestLasts(t *testing.T) {
	types := func(lasts time.Duration) []catalog.InstanceType {
		return []catalog.InstanceType{{Name: "m5.large", Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "spot", Lasts: lasts}, {Zone: "b", CapacityType: "spot"}, {Zone: "c", CapacityType: "on-demand", Lasts: lasts},
		}}}
	}
	got := consolidate.Lasts(catalog.State{InstanceTypes: map[string][]catalog.InstanceType{"one": types(time.Hour), "other": types(time.Minute), "third": types(time.Hour)}})
	if len(got) != 1 || got[consolidate.SpotOffering{InstanceType: "m5.large", Zone: "a"}] != time.Minute {
		t.Errorf("spot nodes last %v, want a minute in zone a", got)
	}
}

// An on-demand node is replaced by a spot node that is expected to last until the move has paid, however much was moved lately; an eviction from a spot node
// costs what it does by then.
func TestBackToSpotPays(t *testing.T) {
	for _, tc := range []struct {
		what, from     string
		evictions      float64
		lasts          time.Duration
		moves          int
		reason, anyway string
	}{
		{"nothing is known", "on-demand", 0.01, 0, 1, "", ""},
		{"it lasts", "on-demand", 0.01, time.Hour, 1, "", ""},
		{"many were evicted", "on-demand", 0.2, time.Hour, 1, "", ""},
		{"it does not last", "on-demand", 0.01, 9 * time.Minute, 0, "later than 2h0m0s, or than EC2 is expected to take its spot nodes back (9m0s)", ""},
		{"a spot node, and many were evicted", "spot", 0.2, 0, 0, "later than 2h0m0s", "EC2"},
		{"a spot node", "spot", 0.01, 9 * time.Minute, 1, "", ""},
	} {
		o := consolidate.DefaultOptions()
		o.SpotToSpot = true
		if tc.lasts > 0 {
			o.Lasts = map[consolidate.SpotOffering]time.Duration{{InstanceType: "m5.large", Zone: "b"}: tc.lasts}
		}
		nodes := []consolidate.Node{{
			Name: "n", Policy: consolidate.WhenEmptyOrUnderutilized, EvictionCost: tc.evictions, Pods: []consolidate.Pod{{Name: "x", Weight: 1, Fresh: 1}},
			Offer: consolidate.Offer{NodePool: "p", InstanceType: "m5.xlarge", Zone: "a", CapacityType: tc.from, Price: 0.1},
		}}
		got, err := consolidate.Decide(t.Context(), nodes, o, func(context.Context, []string, []string) (consolidate.Answer, error) {
			return consolidate.Answer{Replacements: []consolidate.Replacement{{
				Name: "new", Pods: []string{"x"}, Offer: consolidate.Offer{NodePool: "p", InstanceType: "m5.large", Zone: "b", CapacityType: "spot", Price: 0.03},
			}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Moves) != tc.moves {
			t.Errorf("%s: moves %+v, want %d", tc.what, got.Moves, tc.moves)
		}
		for _, k := range got.Kept {
			if !strings.Contains(k.Reason, tc.reason) || tc.anyway != "" && strings.Contains(k.Reason, tc.anyway) {
				t.Errorf("%s: %s", tc.what, k.Reason)
			}
		}
		for i := range got.Moves {
			// What the move may cost is what pays within the time that it has.
			m := &got.Moves[i]
			within := o.Payback
			if m.Lasts > 0 {
				within = m.Lasts
			}
			if most, want := m.Most(o), 0.1-max(o.MinSaving, m.Cost/within.Hours()); most-want > 1e-9 || want-most > 1e-9 {
				t.Errorf("%s: its replacement may cost %v, want %v", tc.what, most, want)
			}
		}
	}
}

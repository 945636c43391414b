package view_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// Offerings of one zone with the same error are one fault; those that are available, and those whose time has passed, are none.
func TestFaults(t *testing.T) {
	now := created()
	refused := func(zone string, code ec2error.Code, since, until time.Duration) catalog.Offering {
		return catalog.Offering{Zone: zone, CapacityType: "spot", UnavailableUntil: now.Add(until), Refusal: ec2error.Refusal{Code: code, Since: now.Add(since), Attempts: 2}}
	}
	ice, quota := ec2error.InsufficientInstanceCapacity, ec2error.MaxSpotInstanceCountExceeded
	types := []catalog.InstanceType{
		{Name: "m7g.large", Offerings: []catalog.Offering{refused("a", ice, -time.Minute, time.Minute), {Zone: "b", CapacityType: "spot", Available: true}, refused("c", ice, -time.Hour, 0)}},
		{Name: "c7g.large", Offerings: []catalog.Offering{refused("a", ice, -2*time.Minute, time.Minute), {Zone: "b", CapacityType: "on-demand"}}},
	}
	for i := range 30 {
		types = append(types, catalog.InstanceType{Name: fmt.Sprintf("r7g.%02d", i), Offerings: []catalog.Offering{refused("b", quota, -time.Minute, 3*time.Minute)}})
	}
	got := view.Faults(map[string][]catalog.InstanceType{"default": types, "other": types}, now)
	want := []view.Fault{
		{Code: quota, Zone: "b", CapacityType: "spot", More: 10, Since: now.Add(-time.Minute), Attempts: 2, Until: now.Add(3 * time.Minute)},
		{Code: ice, Zone: "a", CapacityType: "spot", InstanceTypes: []string{"c7g.large", "m7g.large"}, Since: now.Add(-2 * time.Minute), Attempts: 2, Until: now.Add(time.Minute)},
	}
	for i := range 20 {
		want[0].InstanceTypes = append(want[0].InstanceTypes, fmt.Sprintf("r7g.%02d", i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if got := view.Faults(nil, now); got == nil || len(got) != 0 {
		t.Errorf("got %v, want an empty list", got)
	}
}

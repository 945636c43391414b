package aws

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func iced(instanceType string) fleetFailure {
	return fleetFailure{OfferingFailure: cloud.OfferingFailure{
		Option: option(instanceType, zoneA, "spot"), Reason: ec2error.InsufficientInstanceCapacity,
	}}
}

// Five types of three families show that a zone has no spot capacity, not one failure for each of its hundreds of types. Other kinds of
// instances, other zones and on-demand are not affected.
func TestZoneStockOut(t *testing.T) {
	u := newUnavailable(3*time.Minute, newSignal())
	now := time.Now()
	known := func(instanceType, zone, capacityType string) bool {
		return u.of(offeringKey{capacityType, instanceType, zone}, now).holds(now)
	}
	refuse := func(types ...string) {
		for _, name := range types {
			u.remember([]fleetFailure{iced(name)}, now)
		}
	}
	refuse("m7g.large", "m7g.xlarge", "m7g.2xlarge", "m7g.4xlarge", "m7g.8xlarge", "m7g.16xlarge")
	if known("c7g.large", zoneA, "spot") {
		t.Error("one family stands for all")
	}
	refuse("c7g.xlarge", "r7g.xlarge")
	for _, c := range []struct {
		instanceType, zone, capacityType string
		out                              bool
	}{
		{"c5.large", zoneA, "spot", true},
		{"t4g.small", zoneA, "spot", true},
		{"c5.large", zoneB, "spot", false},
		{"c5.large", zoneA, "on-demand", false},
		{"g5.xlarge", zoneA, "spot", false},
	} {
		if got := known(c.instanceType, c.zone, c.capacityType); got != c.out {
			t.Errorf("%+v: unavailable %v", c, got)
		}
	}
	now = now.Add(3 * time.Minute)
	u.expire(now)
	if known("c5.large", zoneA, "spot") {
		t.Error("the stock-out does not end")
	}
	// The old refusals are over: five new ones are needed.
	refuse("m7g.large", "c7g.xlarge", "r7g.xlarge")
	if known("c5.large", zoneA, "spot") {
		t.Error("refusals that are over still count")
	}
}

func TestLaunchEndsTheCountOfAStockOut(t *testing.T) {
	u := newUnavailable(3*time.Minute, newSignal())
	now := time.Now()
	for i, name := range []string{"m7g.large", "c7g.large", "r7g.large", "m6g.large", "c6g.large"} {
		if i == 4 {
			u.sold(option("t4g.large", zoneA, "spot"))
		}
		u.remember([]fleetFailure{iced(name)}, now)
	}
	if u.of(offeringKey{"spot", "r6g.large", zoneA}, now).holds(now) {
		t.Error("the zone counts as sold out although it sold one")
	}
}

// A fleet that blames its request says nothing about the zone.
func TestBlamedRequestIsNoStockOut(t *testing.T) {
	u := newUnavailable(3*time.Minute, newSignal())
	now := time.Now()
	for _, name := range []string{"m7g.large", "c7g.large", "r7g.large", "m6g.large", "c6g.large", "r6g.large"} {
		f := iced(name)
		f.Reason, f.text = ec2error.UnfulfillableCapacity, blamed
		u.remember([]fleetFailure{f}, now)
	}
	if u.of(offeringKey{"spot", "c5.large", zoneA}, now).holds(now) {
		t.Error("the zone counts as sold out")
	}
	if !u.of(offeringKey{"spot", "m7g.large", zoneA}, now).holds(now) {
		t.Error("the offering does not wait")
	}
}

func TestKinds(t *testing.T) {
	for name, want := range map[string]string{
		"m7g.large": "general/*", "c5.large": "general/*", "t3a.nano": "general/*", "g5.xlarge": "g/*", "p5.48xlarge": "p/*",
		"inf2.xlarge": "inf/*", "u-6tb1.metal": "u-/*", "x2idn.metal": "x/*", "cr-1": "",
	} {
		if got := kindOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A launch in a sold-out zone is answered without a call, and the whole zone becomes available again together.
func TestStockOutInTheCatalog(t *testing.T) {
	c := quiet(t)
	var failures []fleetFailure
	for i, family := range []string{"m1", "c1", "r1"} {
		failures = append(failures, iced(fmt.Sprintf("%s.large", family)), iced(fmt.Sprintf("%s.%dxlarge", family, i+2)))
	}
	c.remember(failures)
	types, err := c.InstanceTypes(t.Context(), nodeClass())
	if err != nil || len(types) == 0 {
		t.Fatal(err)
	}
	for _, it := range types {
		for _, o := range it.Offerings {
			if want := o.Zone != zoneA || o.CapacityType != "spot"; o.Available != want {
				t.Errorf("%s %+v, want available %v", it.Name, o, want)
			}
		}
	}
}

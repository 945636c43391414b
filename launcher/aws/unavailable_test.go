package aws

import (
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func refused(code ec2error.Code, instanceType, capacityType string) []fleetFailure {
	return []fleetFailure{{OfferingFailure: cloud.OfferingFailure{Option: option(instanceType, zoneA, capacityType), Reason: code}, text: "EC2's text"}}
}

// A quota concerns the instance types that count against it, of one capacity type.
func TestQuotaConcernsItsOfferingsAlone(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name     string
		failures []fleetFailure
		// out are unavailable then, in are not.
		out, in []offeringKey
	}{
		{
			"vCPUs", refused(ec2error.VcpuLimitExceeded, "m7g.16xlarge", "on-demand"),
			[]offeringKey{{"on-demand", "m7g.16xlarge", zoneA}, {"on-demand", "m7g.16xlarge", zoneB}},
			[]offeringKey{{"on-demand", "m7g.large", zoneA}, {"spot", "m7g.16xlarge", zoneA}, {"on-demand", "g5.xlarge", zoneA}},
		},
		{
			"spot of G", refused(ec2error.MaxSpotInstanceCountExceeded, "g5.xlarge", "spot"),
			[]offeringKey{{"spot", "g5.xlarge", zoneB}, {"spot", "g4dn.xlarge", zoneA}},
			[]offeringKey{{"spot", "m7g.large", zoneA}, {"spot", "p4d.24xlarge", zoneA}, {"on-demand", "g5.xlarge", zoneA}},
		},
		{
			"spot of standard families", refused(ec2error.MaxSpotInstanceCountExceeded, "m7g.large", "spot"),
			[]offeringKey{{"spot", "c5.large", zoneB}, {"spot", "i4i.large", zoneA}},
			[]offeringKey{{"spot", "g5.xlarge", zoneA}, {"on-demand", "m7g.large", zoneA}},
		},
		{
			"the spot role", refused(ec2error.SpotServiceLinkedRole, "m7g.large", "spot"),
			[]offeringKey{{"spot", "c5.large", zoneB}, {"spot", "g5.xlarge", zoneA}},
			[]offeringKey{{"on-demand", "m7g.large", zoneA}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUnavailable(3*time.Minute, newSignal())
			u.remember(c.failures, now)
			for _, k := range c.out {
				if m := u.of(k, now); !m.holds(now) || m.Code != c.failures[0].Reason || m.text != "EC2's text" {
					t.Errorf("%+v: %+v", k, m)
				}
			}
			for _, k := range c.in {
				if m := u.of(k, now); m.holds(now) {
					t.Errorf("%+v: %+v", k, m)
				}
			}
		})
	}
}

// Refusals of the same code go on counting when the offering is tried again, until it is launched or EC2 gives another code.
func TestRefusalsAreCounted(t *testing.T) {
	u := newUnavailable(3*time.Minute, newSignal())
	begin := time.Now()
	now := begin
	try := func(code ec2error.Code, attempts int, since time.Time) {
		t.Helper()
		u.expire(now)
		got := u.remember(refused(code, "m7g.large", "spot"), now)[0]
		if got.Attempts != attempts || !got.Since.Equal(since) {
			t.Errorf("%s: attempt %d since %s, want %d since %s", code, got.Attempts, got.Since.Sub(begin), attempts, since.Sub(begin))
		}
	}
	try(ec2error.InsufficientInstanceCapacity, 1, begin)
	try(ec2error.InsufficientInstanceCapacity, 1, begin) // Another launch at the same time.
	now = now.Add(4 * time.Minute)
	try(ec2error.InsufficientInstanceCapacity, 2, begin)
	now = now.Add(4 * time.Minute)
	try(ec2error.UnfulfillableCapacity, 1, now)
	now = now.Add(4 * time.Minute)
	u.expire(now)
	u.sold(option("m7g.large", zoneA, "spot"))
	try(ec2error.UnfulfillableCapacity, 1, now)
	// A day later nothing is left of it.
	now = now.Add(24 * time.Hour)
	u.expire(now)
	u.expire(now)
	if len(u.offerings) != 0 {
		t.Errorf("%+v", u.offerings)
	}
}

package aws

import (
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const (
	// stockOutTypes and stockOutFamilies are how many instance types, of how many families, must have been without spot capacity in a zone,
	// with no launch in between, before the whole zone counts as sold out.
	stockOutTypes, stockOutFamilies = 5, 3
)

// stockOuts collects the failures of spot pools. A few of them show that a zone is sold out, instead of one failure for each of its hundreds
// of types. Kinds of instances are counted separately: a shortage of GPUs says nothing about other types.
type stockOuts map[offeringKey]map[string]time.Time

// kindOf returns the kind of an instance type, as EC2 groups its families: general purpose, or for accelerated and other families their
// letter.
func kindOf(instanceType string) string {
	family, _, sized := strings.Cut(instanceType, ".")
	if !sized {
		return ""
	}
	letters := strings.TrimRight(family, "0123456789-")
	if i := strings.IndexAny(family, "0123456789"); i > 0 {
		letters = family[:i]
	}
	switch letters {
	case "c", "m", "r", "t":
		return "general/*"
	}
	return letters + "/*"
}

// countsForZone reports whether the failure may be one of many that show that a zone has no spot capacity. One for which a fleet blames its request
// is none: another request may have capacity there. Nor is one inside of a placement group, which takes instances in a part of the zone alone.
func countsForZone(f fleetFailure) bool {
	return f.Option.PlacementGroup == "" && catalog.CapacityTypeOf(f.Option.CapacityType).Interruptible && kindOf(f.Option.InstanceType) != "" &&
		!f.Reason.BlamesRequest(f.text) && (f.Reason == ec2error.InsufficientInstanceCapacity || f.Reason == ec2error.UnfulfillableCapacity)
}

// note adds a failure. out reports whether the key's zone is now sold out for its kind.
func (s stockOuts) note(f fleetFailure, until, now time.Time) (key offeringKey, out bool) {
	key = offeringKey{f.Option.CapacityType, kindOf(f.Option.InstanceType), f.Option.Zone}
	if !countsForZone(f) {
		return key, false
	}
	refused := s[key]
	if refused == nil {
		refused = map[string]time.Time{}
		s[key] = refused
	}
	refused[f.Option.InstanceType] = until
	families := map[string]bool{}
	for t, end := range refused {
		if !end.After(now) {
			delete(refused, t)
			continue
		}
		family, _, _ := strings.Cut(t, ".")
		families[family] = true
	}
	return key, len(refused) >= stockOutTypes && len(families) >= stockOutFamilies
}

// sold drops the failures of the zone in which an option was launched.
func (s stockOuts) sold(o cloud.Option) {
	delete(s, offeringKey{o.CapacityType, kindOf(o.InstanceType), o.Zone})
}

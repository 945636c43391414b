package aws

import (
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const (
	// stockOutTypes and stockOutFamilies are how many instance types, of how many families, spot must have refused in a zone,
	// with none launched meanwhile, before the zone counts as sold out.
	stockOutTypes, stockOutFamilies = 5, 3
)

// stockOuts gathers the refusals of spot pools, so that a zone that is sold out is learned from a few of them instead of from
// one for each of its hundreds of types. Kinds of instances are kept apart: want of GPUs says nothing of the rest.
type stockOuts map[offeringKey]map[string]time.Time

// kindOf is what an instance type's capacity is bought for, as EC2 groups its families: general-purpose, or accelerated and
// other families by their letter.
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

// note adds a failure; out says that with it the zone of the key is sold out for its kind.
func (s stockOuts) note(f fleetFailure, until, now time.Time) (key offeringKey, out bool) {
	key = offeringKey{f.Option.CapacityType, kindOf(f.Option.InstanceType), f.Option.Zone}
	if !isSpot(f.Option) || key.instanceType == "" || f.Reason != codeInsufficientInstanceCapacity && f.Reason != codeUnfulfillableCapacity {
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

// sold forgets the refusals of the zone in which an option was launched.
func (s stockOuts) sold(o cloud.Option) {
	delete(s, offeringKey{o.CapacityType, kindOf(o.InstanceType), o.Zone})
}

package aws

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// offersCache keeps, by class, the last answers of InstanceTypes and AllInstanceTypes, and the inputs that they were computed from. While the
// inputs are the same, it returns the same lists, and no metric is written.
type offersCache struct {
	mu sync.Mutex
	by map[string]classOffers
}

type classOffers struct {
	// known and changed are compared by identity: if both are the same, neither market nor availability has changed.
	known   *market
	changed <-chan struct{}
	follows offersKey
	// until is when the first unavailable offering is tried again; zero if none is unavailable.
	until time.Time
	// types are the answer of InstanceTypes, all that of AllInstanceTypes.
	types, all []catalog.InstanceType
}

func newOffersCache() *offersCache { return &offersCache{by: map[string]classOffers{}} }

// offersKey is all of a class that its offerings depend on.
type offersKey struct {
	shapes shapesKey
	status string
}

// follows returns the key of a class with the shapes.
func follows(class *awsv1.EC2NodeClass, shapes shapesKey) offersKey {
	return offersKey{shapes, cacheKey([]any{class.UID, class.Generation, class.Status.Subnets, class.Status.CapacityReservations})}
}

// get returns the cached answer of a class, and whether it is still valid.
func (o *offersCache) get(name string, now time.Time, like classOffers) (classOffers, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	have, ok := o.by[name]
	return have, ok && have.known == like.known && have.changed == like.changed && have.follows == like.follows &&
		(have.until.IsZero() || now.Before(have.until))
}

// put stores an answer and returns its changes.
func (o *offersCache) put(name string, next classOffers) offersChange {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := changeOf(o.by[name].types, next.types)
	o.by[name] = next
	out.gone = slices.DeleteFunc(out.gone, func(g offeringKey) bool { return o.offeredLocked(g) })
	return out
}

// forget drops a class and returns the offerings that no class has any more.
func (o *offersCache) forget(name string) offersChange {
	change := o.put(name, classOffers{})
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.by, name)
	return change
}

func (o *offersCache) offeredLocked(k offeringKey) bool {
	for _, c := range o.by {
		at, ok := slices.BinarySearchFunc(c.types, k.instanceType, func(t catalog.InstanceType, name string) int {
			return strings.Compare(t.Name, name)
		})
		if ok && slices.ContainsFunc(c.types[at].Offerings, func(of catalog.Offering) bool {
			return of.Zone == k.zone && of.CapacityType == k.capacityType
		}) {
			return true
		}
	}
	return false
}

// offersChange is the difference between two answers for one class.
type offersChange struct {
	// set holds the offerings that are new, or whose price or availability changed.
	set []namedOffering
	// gone holds the offerings that no class has any more.
	gone []offeringKey
}

type namedOffering struct {
	instanceType string
	catalog.Offering
}

func (n namedOffering) key() offeringKey { return offeringKey{n.CapacityType, n.instanceType, n.Zone} }

// changeOf compares two lists sorted by name, with offerings sorted by capacity type and zone.
func changeOf(before, after []catalog.InstanceType) offersChange {
	var out offersChange
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		var was, is []catalog.Offering
		name, order := "", 0
		charges := catalog.Charges{}
		switch {
		case i == len(before):
			order = 1
		case j == len(after):
			order = -1
		default:
			order = strings.Compare(before[i].Name, after[j].Name)
		}
		if order <= 0 {
			name, was = before[i].Name, before[i].Offerings
			i++
		}
		if order >= 0 {
			name, is, charges = after[j].Name, after[j].Offerings, after[j].Charges
			j++
		}
		out.compare(name, was, is, charges)
	}
	return out
}

// compare records the changes of one instance type. The metrics' prices are those of instances, without the charges.
func (c *offersChange) compare(name string, was, is []catalog.Offering, charges catalog.Charges) {
	if slices.EqualFunc(was, is, sameGauges) {
		return
	}
	for _, o := range is {
		if !slices.ContainsFunc(was, func(b catalog.Offering) bool { return sameGauges(b, o) }) {
			o.Price -= charges.Fixed()
			c.set = append(c.set, namedOffering{name, o})
		}
	}
	for _, b := range was {
		if !slices.ContainsFunc(is, func(o catalog.Offering) bool { return o.Zone == b.Zone && o.CapacityType == b.CapacityType }) {
			c.gone = append(c.gone, namedOffering{name, b}.key())
		}
	}
}

// sameGauges reports whether the metrics of two offerings have the same labels and values.
func sameGauges(a, b catalog.Offering) bool {
	return a.Zone == b.Zone && a.CapacityType == b.CapacityType && a.Price == b.Price && a.Available == b.Available
}

// firstEnd returns when the first unavailable offering is tried again; zero if none is unavailable.
func firstEnd(types []catalog.InstanceType) time.Time {
	var first time.Time
	for _, t := range types {
		for _, o := range t.Offerings {
			if !o.UnavailableUntil.IsZero() && (first.IsZero() || o.UnavailableUntil.Before(first)) {
				first = o.UnavailableUntil
			}
		}
	}
	return first
}

func byOffering(a, b catalog.Offering) int {
	return cmp.Or(cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.ReservationID, b.ReservationID))
}

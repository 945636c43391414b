package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// InstanceTypes implements cloud.Cloud. A class without subnets or AMIs in its status can launch nothing: its list is empty.
func (c *Cloud) InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	offers, err := c.offersOf(ctx, class)
	return offers.types, err
}

// AllInstanceTypes implements cloud.Cloud.
func (c *Cloud) AllInstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	offers, err := c.offersOf(ctx, class)
	return offers.all, err
}

// charged is the part of a Cloud that has the market, with the prices of what nodes use beside their instances.
type charged struct{ known *marketCache }

// Rates implements cloud.Cloud.
func (c charged) Rates() *catalog.Rates {
	if known := c.known.get(); known != nil {
		return known.rates
	}
	return nil
}

// offersOf returns what EC2 offers for a class.
func (c *Cloud) offersOf(ctx context.Context, class *awsv1.EC2NodeClass) (_ classOffers, err error) {
	defer c.metrics.measure("GetInstanceTypes")(&err)
	// The signal is read before the data: a change in between then only causes a needless refresh and never makes a stale answer look
	// current.
	changed := c.changed.wait()
	known, err := c.market(ctx)
	if err != nil {
		return classOffers{}, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	group, err := c.placements.of(ctx, class)
	if err != nil {
		return classOffers{}, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	if class.Spec.PlacementGroupSelector != nil && group.ID == "" {
		return classOffers{}, nil // Nothing can be launched: the condition PlacementGroupReady says so.
	}
	shapes, err := c.shapes.of(class, known, shapeInput{region: c.cfg.AWS.Region, public: publicAddress(class, c.subnets), group: group})
	if err != nil {
		return classOffers{}, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	now := time.Now()
	next := classOffers{known: known, changed: changed, follows: follows(class, shapes.follows)}
	if have, ok := c.offers.get(class.Name, now, next); ok {
		return have, nil
	}
	of := offerInput{
		zones: c.over(c.without.zonesOf(class, now), now), left: c.reserved.of, now: now, reservations: class.Status.CapacityReservations,
		full: func(id string) mark { return c.without.reservation(id, now) },
	}
	next.types, next.all = make([]catalog.InstanceType, 0, len(shapes.list)), make([]catalog.InstanceType, 0, len(shapes.list))
	for _, shape := range shapes.list {
		of.facts, of.onDemand, of.spot = known.facts[shape.Name], known.onDemand[shape.Name], known.spot[shape.Name]
		of.refused = func(capacityType, zone string) mark {
			return longest(c.without.inGroup(offeringKey{capacityType, shape.Name, zone}, group.ID, now),
				c.without.refusals.of(idOf(class), capacityType, shape.Name, zone, now))
		}
		all := offerings(of)
		shape.Offerings = slices.DeleteFunc(slices.Clone(all), unpriced) // Nothing is bought at an unknown price.
		shape.Charges.AddTo(shape.Offerings)
		shape.DedicatedShare = catalog.DedicatedShare(of.onDemand, known.dedicated[shape.Name])
		if len(shape.Offerings) > 0 {
			next.types = append(next.types, shape)
		}
		if len(all) > len(shape.Offerings) {
			shape.Offerings = slices.Concat(shape.Offerings, slices.DeleteFunc(all, func(o catalog.Offering) bool { return !unpriced(o) }))
			slices.SortFunc(shape.Offerings, byOffering)
		}
		if len(all) > 0 {
			next.all = append(next.all, shape)
		}
	}
	next.until = firstEnd(next.types)
	c.metrics.offerings(c.offers.put(class.Name, next))
	return next, nil
}

// zonesOf returns the zones in which the class has subnets.
func (u *unavailable) zonesOf(class *awsv1.EC2NodeClass, now time.Time) map[string]offerZone {
	out := map[string]offerZone{}
	for _, s := range class.Status.Subnets {
		m := u.exhausted(class, s.ID, now)
		if z, ok := out[s.Zone]; ok && z.exhausted.until.Before(m.until) {
			m = z.exhausted
		}
		out[s.Zone] = offerZone{id: s.ZoneID, exhausted: m}
	}
	return out
}

// offerings returns the offerings of an instance type, sorted.
func offerings(of offerInput) []catalog.Offering {
	var out []catalog.Offering
	for _, t := range capacityTypes() {
		out = append(out, t.offers(of)...)
	}
	slices.SortFunc(out, byOffering)
	return out
}

// classImages are the AMIs of a class with their requirements on an instance type's labels.
type classImages []classImage

type classImage struct {
	id       string
	requires catalog.Requirements
}

func imagesOf(class *awsv1.EC2NodeClass) (classImages, error) {
	var out classImages
	for _, ami := range class.Status.AMIs {
		requires, err := catalog.NewRequirements(requirementsOf(ami.Requirements))
		if err != nil {
			return nil, fmt.Errorf("EC2NodeClass %s: status.amis[%s]: %w", class.Name, ami.ID, err)
		}
		out = append(out, classImage{id: ami.ID, requires: requires})
	}
	return out, nil
}

func requirementsOf(in []corev1.NodeSelectorRequirement) []catalog.Requirement {
	var out []catalog.Requirement
	for _, r := range in {
		out = append(out, catalog.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return out
}

// pick returns the first AMI, which is the newest, that runs on an instance type with these labels.
func (images classImages) pick(labels map[string]string) (string, bool) {
	for _, i := range images {
		if _, ok := i.requires.Match(labels); ok {
			return i.id, true
		}
	}
	return "", false
}

// shapeCache keeps, by class, the instance types on which an AMI of the class runs, without their offerings. An entry is valid until the
// class's settings, its AMIs or EC2's facts change.
type shapeCache struct {
	reservedENIs   int64
	memoryOverhead *float64

	mu sync.Mutex
	by map[string]classShapes
}

// classShapes are the instance types that a class can launch, sorted by name. The lists and maps are shared: only Offerings may be set, on a
// copy.
type classShapes struct {
	follows    shapesKey
	generation uint64
	list       []catalog.InstanceType
}

// shapesKey is all of a class that its shapes depend on.
type shapesKey struct {
	settings string
	// reports is the annotation with what the class's nodes report, up to 128 KiB. It is compared as it is: each NodeClaim asks for the types of its
	// class every few minutes, and to encode it would be most of what an answer costs.
	reports string
}

func newShapeCache(cfg Config) *shapeCache {
	return &shapeCache{reservedENIs: cfg.ReservedENIs, memoryOverhead: cfg.MemoryOverhead, by: map[string]classShapes{}}
}

// shapeInput is what the shapes of a class depend on beside the class itself: the region, whether its nodes have a public IPv4 address, and
// their placement group.
type shapeInput struct {
	region string
	public bool
	group  catalog.PlacementGroup
}

// of returns the shapes of a class.
func (s *shapeCache) of(class *awsv1.EC2NodeClass, known *market, in shapeInput) (classShapes, error) {
	settings := fromec2.NodeClass(class)
	settings.PublicIPv4, settings.PlacementGroup = in.public, in.group
	settings.ReservedENIs, settings.MemoryOverhead = s.reservedENIs, s.memoryOverhead
	next := classShapes{
		follows: shapesKey{
			settings: cacheKey([]any{settings, class.Status.AMIs, class.Annotations[awsv1.AnnotationEC2NodeClassHash]}),
			reports:  class.Annotations[catalog.LearnedAnnotation],
		},
		generation: known.generation,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.by[class.Name]; ok && have.follows == next.follows && have.generation == next.generation {
		return have, nil
	}
	settings.Rates = known.rates // The generation follows them.
	images, err := imagesOf(class)
	if err != nil {
		return classShapes{}, err
	}
	sizes := fromec2.SizesOf(class)
	settings.Learned = map[string]catalog.Learned{}
	for _, name := range slices.SortedFunc(maps.Keys(known.facts), strings.Compare) {
		image, ok := images.pick(catalog.Labels(known.facts[name], settings.AMIFamily))
		if !ok || !catalog.Suits(known.facts[name], settings) {
			continue
		}
		if learned, ok := sizes.Learned(class, name, image); ok {
			settings.Learned[name] = learned
		}
		shape, err := catalog.New(known.facts[name], settings)
		if err != nil {
			return classShapes{}, err
		}
		shape.Labels[corev1.LabelTopologyRegion] = in.region
		next.list = append(next.list, shape)
	}
	s.by[class.Name] = next
	return next, nil
}

func (s *shapeCache) forget(class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, class)
}

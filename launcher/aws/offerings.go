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
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// InstanceTypes implements cloud.Cloud. A class without subnets or AMIs in its status can launch nothing: its list is empty.
func (c *Cloud) InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) (_ []catalog.InstanceType, err error) {
	defer c.metrics.measure("GetInstanceTypes")(&err)
	// The signal is read before the data: a change in between then only causes a needless refresh and never makes a stale answer look
	// current.
	changed := c.changed.wait()
	known, err := c.market(ctx)
	if err != nil {
		return nil, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	shapes, err := c.shapes.of(class, known, c.cfg.AWS.Region)
	if err != nil {
		return nil, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	now := time.Now()
	next := classOffers{known: known, changed: changed, follows: follows(class, shapes.follows)}
	if have, ok := c.offers.get(class.Name, now, next); ok {
		return have.types, nil
	}
	zones := zonesOf(class)
	next.types = make([]catalog.InstanceType, 0, len(shapes.list))
	for _, shape := range shapes.list {
		shape.Offerings = c.offerings(known, shape.Name, zones, now)
		if reserved := c.reservedOfferings(class, known, shape.Name, zones, now); len(reserved) > 0 {
			shape.Offerings = append(shape.Offerings, reserved...)
			slices.SortFunc(shape.Offerings, byOffering)
		}
		if len(shape.Offerings) > 0 {
			next.types = append(next.types, shape)
		}
	}
	next.until = firstEnd(next.types)
	c.metrics.offerings(c.offers.put(class.Name, next))
	return next.types, nil
}

// zoneSubnets are a class's subnets in one zone.
type zoneSubnets struct {
	zoneID  string
	subnets []string
}

func zonesOf(class *awsv1.EC2NodeClass) map[string]zoneSubnets {
	out := map[string]zoneSubnets{}
	for _, s := range class.Status.Subnets {
		z := out[s.Zone]
		z.zoneID = s.ZoneID
		z.subnets = append(z.subnets, s.ID)
		out[s.Zone] = z
	}
	return out
}

// offerings returns the offerings of an instance type in the zones of a class, sorted by capacity type and zone. An offering without a price
// is left out, so that nothing is bought at an unknown price.
func (c *Cloud) offerings(known *market, name string, zones map[string]zoneSubnets, now time.Time) []catalog.Offering {
	facts := known.facts[name]
	out := make([]catalog.Offering, 0, len(facts.CapacityTypes)*min(len(facts.Zones), len(zones)))
	for _, capacityType := range facts.CapacityTypes {
		for _, zone := range facts.Zones {
			in, ok := zones[zone]
			if !ok {
				continue
			}
			price, ok := known.onDemand[name], known.onDemand[name] > 0
			if capacityType == karpv1.CapacityTypeSpot {
				price, ok = known.spot[name][zone]
				price = believable(price, known.onDemand[name])
			}
			if !ok {
				continue
			}
			until := c.without.until(offeringKey{capacityType, name, zone}, now)
			if t := c.exhaustedUntil(in.subnets, now); t.After(until) {
				until = t
			}
			out = append(out, catalog.Offering{
				Zone: zone, ZoneID: in.zoneID, CapacityType: capacityType, Price: price,
				Available: until.IsZero(), UnavailableUntil: until,
			})
		}
	}
	return out
}

// believable returns the spot price, or a tenth of the on-demand price if the spot price is below a twentieth of it. EC2's discount is at
// most 90 % (EC2 pricing page, "Amazon EC2 Spot"). A stand-in for EC2 that returns one tiny price for all types would otherwise make the
// launcher buy the largest ones.
func believable(spot, onDemand float64) float64 {
	if spot < onDemand/20 {
		return onDemand / 10
	}
	return spot
}

// exhaustedUntil returns when the first of the subnets may have free addresses again; zero if one may have some now.
func (c *Cloud) exhaustedUntil(subnets []string, now time.Time) time.Time {
	var first time.Time
	for _, s := range subnets {
		t := c.without.exhausted(s, now)
		if t.IsZero() {
			return t
		}
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
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
	// follows is a key of all the fields of the class that the list depends on.
	follows    string
	generation uint64
	list       []catalog.InstanceType
}

func newShapeCache(cfg Config) *shapeCache {
	return &shapeCache{reservedENIs: cfg.ReservedENIs, memoryOverhead: cfg.MemoryOverhead, by: map[string]classShapes{}}
}

// of returns the shapes of a class.
func (s *shapeCache) of(class *awsv1.EC2NodeClass, known *market, region string) (classShapes, error) {
	settings := fromec2.NodeClass(class)
	settings.ReservedENIs, settings.MemoryOverhead = s.reservedENIs, s.memoryOverhead
	next := classShapes{
		follows: cacheKey([]any{
			settings, class.Status.AMIs, class.Annotations[catalog.LearnedAnnotation], class.Annotations[awsv1.AnnotationEC2NodeClassHash],
		}),
		generation: known.generation,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.by[class.Name]; ok && have.follows == next.follows && have.generation == next.generation {
		return have, nil
	}
	images, err := imagesOf(class)
	if err != nil {
		return classShapes{}, err
	}
	sizes := fromec2.SizesOf(class)
	settings.Learned = map[string]catalog.Learned{}
	for _, name := range slices.SortedFunc(maps.Keys(known.facts), strings.Compare) {
		image, ok := images.pick(catalog.Labels(known.facts[name]))
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
		shape.Labels[corev1.LabelTopologyRegion] = region
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

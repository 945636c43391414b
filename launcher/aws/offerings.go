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
)

// InstanceTypes implements cloud.Cloud. A class without subnets or AMIs in its status can launch nothing: the list is
// empty then.
func (c *Cloud) InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) (_ []catalog.InstanceType, err error) {
	defer c.metrics.measure("GetInstanceTypes")(&err)
	known, err := c.market(ctx)
	if err != nil {
		return nil, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	shapes, err := c.shapes.of(class, known, c.cfg.AWS.Region)
	if err != nil {
		return nil, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	images, err := imagesOf(class)
	if err != nil {
		return nil, err
	}
	zones, now := zonesOf(class), time.Now()
	var out []catalog.InstanceType
	for _, shape := range shapes {
		if _, ok := images.pick(shape.Labels); !ok {
			continue
		}
		shape.Offerings = c.offerings(known, shape.Name, zones, now)
		if len(shape.Offerings) > 0 {
			out = append(out, shape)
		}
	}
	c.metrics.offerings(out)
	return out, nil
}

// zoneSubnets is what a class has in one zone.
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

// offerings of an instance type in the zones of a class, sorted by capacity type and zone. One without a known price is
// left out: nothing is bought blindly.
func (c *Cloud) offerings(known *market, name string, zones map[string]zoneSubnets, now time.Time) []catalog.Offering {
	var out []catalog.Offering
	facts := known.facts[name]
	for _, capacityType := range facts.CapacityTypes {
		for _, zone := range facts.Zones {
			in, ok := zones[zone]
			if !ok {
				continue
			}
			price, ok := known.onDemand[name], known.onDemand[name] > 0
			if capacityType == karpv1.CapacityTypeSpot {
				price, ok = known.spot[name][zone]
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

// exhaustedUntil is when the first of the subnets may have addresses again; zero where one may have now.
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

// classImages is the AMIs of a class with what they require of an instance type's labels.
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

// pick returns the first AMI, so the newest, that runs on an instance type with these labels.
func (images classImages) pick(labels map[string]string) (string, bool) {
	for _, i := range images {
		if _, ok := i.requires.Match(labels); ok {
			return i.id, true
		}
	}
	return "", false
}

// shapeCache remembers, by class, the instance types without their offerings, for as long as neither the class's
// settings nor EC2's facts change.
type shapeCache struct {
	mu sync.Mutex
	by map[string]shapesOfClass
}

type shapesOfClass struct {
	settings   string
	generation uint64
	shapes     []catalog.InstanceType
}

func newShapeCache() *shapeCache { return &shapeCache{by: map[string]shapesOfClass{}} }

// of returns the shapes sorted by name. Its lists and maps are shared: only Offerings may be set, on a copy.
func (s *shapeCache) of(class *awsv1.EC2NodeClass, known *market, region string) ([]catalog.InstanceType, error) {
	settings := cacheKey(classSettings(class))
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.by[class.Name]; ok && have.settings == settings && have.generation == known.generation {
		return have.shapes, nil
	}
	next := shapesOfClass{settings: settings, generation: known.generation}
	for _, name := range slices.SortedFunc(maps.Keys(known.facts), strings.Compare) {
		shape, err := catalog.New(known.facts[name], classSettings(class))
		if err != nil {
			return nil, err
		}
		shape.Labels[corev1.LabelTopologyRegion] = region
		next.shapes = append(next.shapes, shape)
	}
	s.by[class.Name] = next
	return next.shapes, nil
}

func (s *shapeCache) forget(class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, class)
}

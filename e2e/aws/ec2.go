package aws

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/slipway-k8s/slipway/e2e/aws/placementgroup"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

func (s *Server) ec2Actions() map[string]action {
	groups, power := placementCalls{s.placements, s.dice}, powerCalls{s}
	return map[string]action{
		"CreateFleet":                    s.createFleet,
		"CreateLaunchTemplate":           s.createLaunchTemplate,
		"CreatePlacementGroup":           groups.create,
		"CreateTags":                     s.createTags,
		"DeleteLaunchTemplate":           s.deleteLaunchTemplate,
		"DeletePlacementGroup":           groups.delete,
		"DeleteTags":                     s.deleteTags,
		"DescribeAvailabilityZones":      s.describeAvailabilityZones,
		"DescribeCapacityReservations":   s.describeCapacityReservations,
		"DescribeReservedInstances":      func(_ context.Context, r request) (any, error) { return s.Commitments.describeReserved(r.Request) },
		"GetSpotPlacementScores":         func(_ context.Context, r request) (any, error) { return s.Scores.get(r.Params) },
		"DescribeImages":                 s.describeImages,
		"DescribeInstanceAttribute":      s.describeInstanceAttribute,
		"DescribeInstanceStatus":         s.describeInstanceStatus,
		"DescribeInstanceTypeOfferings":  s.describeInstanceTypeOfferings,
		"DescribeInstanceTypes":          s.describeInstanceTypes,
		"DescribeInstances":              s.describeInstances,
		"DescribeLaunchTemplateVersions": s.describeLaunchTemplateVersions,
		"DescribeLaunchTemplates":        s.describeLaunchTemplates,
		"DescribePlacementGroups":        groups.describe,
		"DescribeRegions":                s.describeRegions,
		"DescribeSecurityGroups":         s.describeSecurityGroups,
		"DescribeSpotPriceHistory":       s.describeSpotPriceHistory,
		"DescribeSubnets":                s.describeSubnets,
		"DescribeTags":                   s.describeTags,
		"DescribeVolumes":                s.instances.describeVolumes,
		"DescribeVpcs":                   s.describeVPCs,
		"RunInstances":                   s.runInstances,
		"StartInstances":                 power.startInstances,
		"StopInstances":                  power.stopInstances,
		"TerminateInstances":             power.terminateInstances,
	}
}

// tagXML is a tag in a response.
type tagXML struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func tagSet(tags map[string]string) wire.Set[tagXML] {
	var out wire.Set[tagXML]
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out.Items = append(out.Items, tagXML{key, tags[key]})
	}
	return out
}

// specifiedTags reads the tags that a call's tag specifications give one type of resource.
func specifiedTags(p wire.Params, resource string) map[string]string {
	out := map[string]string{}
	for _, spec := range p.Each("TagSpecification") {
		if spec.Get("ResourceType") == resource {
			maps.Copy(out, spec.Tags("Tag"))
		}
	}
	return out
}

// listOf implements most Describe calls. It returns, in pages, the items that have one of the call's ids, if it names any,
// and match its filters. An id that does not exist causes the error notFound.
type listOf[T any] struct {
	items      []T
	key        func(T) string
	attributes func(T) wire.Attribute
	// idParam is the name of the list of ids in the request; keys are what it is compared with.
	idParam  string
	notFound func(id string) error
	pages    wire.Pages
}

func (l listOf[T]) answer(p wire.Params) (page []T, next string, err error) {
	items := l.items
	if ids := p.Strings(l.idParam); l.idParam != "" && len(ids) > 0 {
		byID := make(map[string]T, len(items))
		for _, item := range items {
			byID[l.key(item)] = item
		}
		items = nil
		for _, id := range ids {
			item, ok := byID[id]
			if !ok {
				return nil, "", l.notFound(id)
			}
			items = append(items, item)
		}
	}
	filters, err := p.Filters()
	if err != nil {
		return nil, "", err
	}
	if items, err = wire.Select(filters, items, l.attributes); err != nil {
		return nil, "", err
	}
	return wire.Page(p, l.pages, items, l.key)
}

// fixed returns an attribute function over a map. A name that the map lacks is an unknown filter.
func fixed(values map[string]string) wire.Attribute {
	return func(name string) ([]string, bool) {
		v, ok := values[name]
		return []string{v}, ok
	}
}

func yesNo(b bool) string { return strconv.FormatBool(b) }

// placementCalls are the calls about placement groups.
type placementCalls struct {
	groups *placementgroup.Groups
	dice   *dice
}

func (c placementCalls) create(_ context.Context, r request) (any, error) {
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	group, err := c.groups.Create(r.Params, c.dice.id("pg"), specifiedTags(r.Params, "placement-group"))
	return struct {
		Group placementgroup.XML `xml:"placementGroup"`
	}{group.Described()}, err
}

func (c placementCalls) delete(_ context.Context, r request) (any, error) {
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	return struct {
		Return bool `xml:"return"`
	}{true}, c.groups.Delete(r.Params.Get("GroupName"))
}

func (c placementCalls) describe(_ context.Context, r request) (any, error) {
	l := listOf[placementgroup.Group]{
		items: c.groups.List(), key: func(g placementgroup.Group) string { return g.Name }, idParam: "GroupName", attributes: placementgroup.Group.Attributes,
		notFound: func(name string) error {
			return wire.Errorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
		},
	}
	if r.Params.At("GroupId").Given() {
		l.key, l.idParam = func(g placementgroup.Group) string { return g.ID }, "GroupId"
	}
	found, _, err := l.answer(r.Params)
	var out struct {
		Set wire.Set[placementgroup.XML] `xml:"placementGroupSet"`
	}
	for _, g := range found {
		out.Set.Items = append(out.Set.Items, g.Described())
	}
	return out, err
}

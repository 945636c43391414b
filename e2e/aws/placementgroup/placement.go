// Package placementgroup holds EC2's placement groups and their members, with EC2's limits (EC2 user guide, "Placement groups"). It is safe for
// concurrent use.
package placementgroup

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// The strategies of placement groups.
const (
	// Cluster packs instances close together in one zone.
	Cluster = "cluster"
	// Partition distributes them over partitions without common hardware.
	Partition = "partition"
	// Spread puts each on hardware of its own.
	Spread = "spread"
)

const (
	// mostSpread is the number of instances of a spread group in a zone.
	mostSpread = 7
	// mostPartitions is the number of partitions in a zone, defaultPartitions that of a group that names none.
	mostPartitions, defaultPartitions = 7, 2
)

// Group is a placement group.
type Group struct {
	// ID such as pg-0123456789abcdef0, and Name.
	ID, Name string
	// Strategy is one of the constants.
	Strategy string
	// Partitions is their number with the strategy Partition; 0 for the others.
	Partitions int
	// Tags are its tags.
	Tags map[string]string
}

// Place is where an instance is to be launched; the zero value is in no group.
type Place struct {
	// Group is the ID of a placement group.
	Group string
	// Partition is a number from 1; 0 leaves it to EC2.
	Partition int
}

// member is an instance in a group.
type member struct {
	place Place
	zone  string
}

// Groups are all placement groups of an account and a region.
type Groups struct {
	mu      sync.Mutex
	all     []Group
	members map[string]member
}

// New returns no groups.
func New() *Groups { return &Groups{members: map[string]member{}} }

// Create reads a CreatePlacementGroup call and makes the group with the ID.
func (g *Groups) Create(p wire.Params, id string, tags map[string]string) (Group, error) {
	out := Group{ID: id, Name: p.Get("GroupName"), Strategy: cmp.Or(p.Get("Strategy"), Cluster), Tags: tags}
	count, err := p.Int("PartitionCount", 0)
	switch {
	case err != nil:
		return out, err
	case out.Name == "":
		return out, wire.Errorf("MissingParameter", "The request must contain the parameter GroupName")
	case !slices.Contains([]string{Cluster, Partition, Spread}, out.Strategy):
		return out, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter strategy is invalid.", out.Strategy)
	case count != 0 && out.Strategy != Partition:
		return out, wire.Errorf("InvalidParameterCombination", "PartitionCount is valid for the strategy 'partition' only.")
	case count < 0 || count > mostPartitions:
		return out, wire.Errorf("InvalidParameterValue", "Value (%d) for parameter partitionCount is invalid: it is between 1 and %d.", count, mostPartitions)
	}
	if out.Strategy == Partition {
		out.Partitions = cmp.Or(count, defaultPartitions)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, there := g.find(out.Name); there {
		return out, wire.Errorf("InvalidPlacementGroup.Duplicate", "The placement group '%s' already exists.", out.Name)
	}
	g.all = append(g.all, out)
	return out, nil
}

// Delete removes the group with the name. A group with instances stays.
func (g *Groups) Delete(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	group, ok := g.find(name)
	if !ok {
		return unknown(name)
	}
	for _, m := range g.members {
		if m.place.Group == group.ID {
			return wire.Errorf("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", name)
		}
	}
	g.all = slices.DeleteFunc(g.all, func(other Group) bool { return other.ID == group.ID })
	return nil
}

// List returns all groups.
func (g *Groups) List() []Group {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.all)
}

func (g *Groups) find(idOrName string) (Group, bool) {
	i := slices.IndexFunc(g.all, func(group Group) bool { return group.ID == idOrName || group.Name == idOrName })
	if i < 0 {
		return Group{}, false
	}
	return g.all[i], true
}

func unknown(name string) *wire.Error {
	return wire.Errorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
}

// Read reads the placement of a launch on a type that supports the strategies.
func (g *Groups) Read(placement wire.Params, instanceType string, strategies []string) (Place, *wire.Error) {
	id, name := placement.Get("GroupId"), placement.Get("GroupName")
	number, err := placement.Int("PartitionNumber", 0)
	g.mu.Lock()
	defer g.mu.Unlock()
	group, ok := g.find(cmp.Or(id, name))
	switch {
	case id != "" && name != "":
		return Place{}, wire.Errorf("InvalidParameterCombination", "The parameters GroupName and GroupId cannot be used together.")
	case id == "" && name == "" && number == 0:
		return Place{}, nil
	case id == "" && name == "":
		return Place{}, wire.Errorf("InvalidParameterCombination", "PartitionNumber requires a placement group.")
	case !ok:
		return Place{}, unknown(cmp.Or(id, name))
	case number != 0 && group.Strategy != Partition:
		return Place{}, wire.Errorf("InvalidParameterCombination", "PartitionNumber is valid for placement groups with the strategy 'partition' only.")
	case err != nil || number < 0 || number > group.Partitions:
		return Place{}, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter partitionNumber is invalid: the placement group has %d partitions.", placement.Get("PartitionNumber"), group.Partitions)
	case !slices.Contains(strategies, group.Strategy):
		return Place{}, wire.Errorf("InvalidParameterCombination", "The instance type '%s' is not supported by placement groups with the strategy '%s'.", instanceType, group.Strategy)
	}
	return Place{group.ID, number}, nil
}

// Check returns EC2's refusal of another instance at the place in the zone; nil for none.
func (g *Groups) Check(place Place, zone string) *wire.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.check(place, zone)
}

func (g *Groups) check(place Place, zone string) *wire.Error {
	group, ok := g.find(place.Group)
	switch {
	case place.Group == "":
		return nil
	case !ok:
		return unknown(place.Group)
	}
	here := 0
	for _, m := range g.members {
		switch {
		case m.place.Group != place.Group:
		case m.zone == zone:
			here++
		case group.Strategy == Cluster:
			return wire.Errorf("Unsupported", "The cluster placement group '%s' has instances in %s: it cannot span Availability Zones.", group.Name, m.zone)
		}
	}
	if group.Strategy == Spread && here >= mostSpread {
		return wire.Errorf("InsufficientInstanceCapacity", "You've reached the limit of instances in this spread placement group. A spread placement group can have up to seven instances per Availability Zone.")
	}
	return nil
}

// Join adds an instance, and returns its place: the partition with the fewest instances in the zone if the launch named none.
func (g *Groups) Join(instance string, place Place, zone string) (Place, *wire.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.check(place, zone); err != nil || place.Group == "" {
		return place, err
	}
	if group, _ := g.find(place.Group); group.Strategy == Partition && place.Partition == 0 {
		used := make([]int, group.Partitions)
		for _, m := range g.members {
			if m.place.Group == place.Group && m.zone == zone {
				used[m.place.Partition-1]++
			}
		}
		place.Partition = slices.Index(used, slices.Min(used)) + 1
	}
	g.members[instance] = member{place, zone}
	return place, nil
}

// Leave removes an instance.
func (g *Groups) Leave(instance string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.members, instance)
}

// Of returns where an instance is, with the name of its group; zero for one that is in none.
func (g *Groups) Of(instance string) (Place, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	place := g.members[instance].place
	group, _ := g.find(place.Group)
	return place, group.Name
}

// XML is a placement group in a response.
type XML struct {
	// ID and Name of the group.
	ID string `xml:"groupId"`
	// Name of the group.
	Name string `xml:"groupName"`
	// State is available.
	State string `xml:"state"`
	// Strategy is one of the constants.
	Strategy string `xml:"strategy"`
	// Partitions is their number; absent for other strategies than Partition.
	Partitions int `xml:"partitionCount,omitempty"`
	// Spread is rack for the strategy Spread.
	Spread string `xml:"spreadLevel,omitempty"`
}

// Described returns the group as DescribePlacementGroups does.
func (g Group) Described() XML {
	out := XML{ID: g.ID, Name: g.Name, State: "available", Strategy: g.Strategy, Partitions: g.Partitions}
	if g.Strategy == Spread {
		out.Spread = "rack"
	}
	return out
}

// Attributes are the group's filters.
func (g Group) Attributes() wire.Attribute {
	return wire.Tagged(g.Tags, func(name string) ([]string, bool) {
		value, ok := map[string]string{
			"group-name": g.Name, "state": "available", "strategy": g.Strategy, "spread-level": g.Described().Spread,
			"partition-count": strconv.Itoa(g.Partitions),
		}[name]
		return []string{value}, ok
	})
}

package aws

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// PlacementScores are the region's spot placement scores. Its methods may be called concurrently.
type PlacementScores struct {
	region string
	// zones are the names by ID.
	zones map[string]string
	known func(instanceType string) bool

	mu     sync.Mutex
	scores map[scoredOffering]int
	// asked is when each configuration was asked for first.
	asked map[string]time.Time
}

type scoredOffering struct{ family, zone string }

const (
	// goodScore is that of zones of which none was set.
	goodScore = 9
	// lowScore is that of less than three instance types.
	lowScore = 1
	// mostConfigurations is how many new ones a day has ("for example, 10 new request configurations", EC2 user guide, Spot placement score).
	mostConfigurations = 10
	// mostScoredTypes is how many instance types a request may name.
	mostScoredTypes = 1000
)

// Set sets the score of an instance family in a zone; 0 unsets it.
func (p *PlacementScores) Set(family, zone string, score int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scores == nil {
		p.scores = map[scoredOffering]int{}
	}
	p.scores[scoredOffering{family, zone}] = score
}

// Forget forgets which configurations were asked for, as AWS does after a day.
func (p *PlacementScores) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = nil
}

type placementScoreXML struct {
	Region string `xml:"region"`
	ZoneID string `xml:"availabilityZoneId,omitempty"`
	Score  int    `xml:"score"`
}

func (p *PlacementScores) get(params wire.Params) (any, error) {
	types, regions := params.Strings("InstanceType"), params.Strings("RegionName")
	capacity, err := params.Int("TargetCapacity", 0)
	if err != nil || capacity < 1 {
		return nil, wire.Errorf("InvalidParameterValue", "The target capacity must be greater than zero")
	}
	if len(types) == 0 || len(types) > mostScoredTypes {
		return nil, wire.Errorf("InvalidParameterValue", "From 1 to %d instance types are expected, got %d", mostScoredTypes, len(types))
	}
	for _, name := range types {
		if !p.known(name) {
			return nil, wire.Errorf("InvalidParameterValue", "The instance type '%s' is invalid", name)
		}
	}
	if len(regions) > 0 && !slices.Contains(regions, p.region) {
		return nil, wire.Errorf("InvalidParameterValue", "Only the region %s is played here", p.region)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.configure(strings.Join(slices.Concat(slices.Sorted(slices.Values(types)), regions, []string{params.Get("TargetCapacity")}), " "), time.Now()); err != nil {
		return nil, err
	}
	var list []placementScoreXML
	if params.Bool("SingleAvailabilityZone") {
		for id, zone := range p.zones {
			list = append(list, placementScoreXML{p.region, id, p.best(types, zone)})
		}
		slices.SortFunc(list, func(a, b placementScoreXML) int { return strings.Compare(a.ZoneID, b.ZoneID) })
	} else {
		list = []placementScoreXML{{Region: p.region, Score: goodScore}}
	}
	page, next, err := wire.Page(params, wire.Pages{Min: 10, Max: 1000, Default: 1000}, list, func(s placementScoreXML) string { return s.ZoneID })
	if err != nil {
		return nil, err
	}
	return struct {
		Set  wire.Set[placementScoreXML] `xml:"spotPlacementScoreSet"`
		Next string                      `xml:"nextToken"`
	}{wire.NewSet(page...), next}, nil
}

// configure refuses more new configurations than a day has.
func (p *PlacementScores) configure(configuration string, now time.Time) error {
	if _, known := p.asked[configuration]; known {
		return nil
	}
	fresh := 0
	for _, at := range p.asked {
		if now.Sub(at) < 24*time.Hour {
			fresh++
		}
	}
	if fresh >= mostConfigurations {
		return wire.Errorf("MaxConfigLimitExceeded", "You have exceeded your maximum allowed Spot placement configurations. "+
			"You can retry configurations that you used within the last 24 hours, or wait for 24 hours before specifying a new configuration.")
	}
	if p.asked == nil {
		p.asked = map[string]time.Time{}
	}
	p.asked[configuration] = now
	return nil
}

// best returns the score of a zone: that of the best family of the instance types.
func (p *PlacementScores) best(types []string, zone string) int {
	if len(types) < 3 {
		return lowScore
	}
	out := 0
	for _, name := range types {
		family, _, _ := strings.Cut(name, ".")
		score := p.scores[scoredOffering{family, zone}]
		if score == 0 {
			score = goodScore
		}
		out = max(out, score)
	}
	return out
}

package aws

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

type spotPriceXML struct {
	Type    string `xml:"instanceType"`
	Product string `xml:"productDescription"`
	Price   string `xml:"spotPrice"`
	Time    string `xml:"timestamp"`
	Zone    string `xml:"availabilityZone"`
	ZoneID  string `xml:"availabilityZoneId"`
}

const (
	linuxProduct = "Linux/UNIX"
	// history is the age of the oldest spot prices that are listed (EC2 API reference, DescribeSpotPriceHistory).
	history = 90 * 24 * time.Hour
	// maxSteps limits the size of a response, which grows with a fast clock.
	maxSteps = 200
)

func readTime(p wire.Params, name string, absent time.Time) (time.Time, error) {
	text := p.Get(name)
	if text == "" {
		return absent, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid. The expected format is YYYY-MM-DDTHH:MM:SSZ", text, name)
	}
	return t, nil
}

func (s *Server) describeSpotPriceHistory(_ context.Context, r request) (any, error) {
	p, now := r.Params, time.Now()
	start, err := readTime(p, "StartTime", now.Add(-history))
	if err != nil {
		return nil, err
	}
	end, err := readTime(p, "EndTime", now)
	if err != nil {
		return nil, err
	}
	// Future and very old prices are not listed. The price that held at the start is.
	start, end = clamp(start, now.Add(-history), now), clamp(end, now.Add(-history), now)
	var found []spotPriceXML
	if products := p.Strings("ProductDescription"); len(products) == 0 || slices.ContainsFunc(products, isLinux) {
		types := p.Strings("InstanceType")
		for _, t := range s.table.All() {
			if len(types) == 0 || slices.Contains(types, t.Name) {
				found = append(found, s.spotHistory(t, p.Get("AvailabilityZone"), start, end)...)
			}
		}
	}
	page, next, err := listOf[spotPriceXML]{
		items: found, key: func(o spotPriceXML) string { return o.Type + "/" + o.Zone + "/" + o.Time },
		attributes: func(o spotPriceXML) wire.Attribute {
			return fixed(map[string]string{
				"availability-zone": o.Zone, "availability-zone-id": o.ZoneID, "instance-type": o.Type,
				"product-description": o.Product, "spot-price": o.Price, "timestamp": o.Time,
			})
		},
		pages: wire.Pages{Max: 1000, Default: 1000, Clamp: true},
	}.answer(p)
	if err != nil {
		return nil, err
	}
	return struct {
		Set  wire.Set[spotPriceXML] `xml:"spotPriceHistorySet"`
		Next string                 `xml:"nextToken"`
	}{wire.NewSet(page...), next}, nil
}

func isLinux(product string) bool {
	return product == linuxProduct || product == linuxProduct+" (Amazon VPC)"
}

func clamp(t, low, high time.Time) time.Time {
	if t.Before(low) {
		return low
	}
	if t.After(high) {
		return high
	}
	return t
}

// spotHistory lists the prices of a type that held between start and end, in one zone or in all.
func (s *Server) spotHistory(t instancetypes.Type, zone string, start, end time.Time) []spotPriceXML {
	first, last := instancetypes.Step(s.simulated(start)), instancetypes.Step(s.simulated(end))
	first = max(first, last-maxSteps)
	var out []spotPriceXML
	for _, n := range s.resources.Subnets {
		if zone != "" && zone != n.Zone || !s.table.Offered(t.Name, n.Zone) {
			continue
		}
		for step := first; step <= last; step++ {
			at := instancetypes.StepStart(step)
			out = append(out, spotPriceXML{
				Type: t.Name, Product: linuxProduct, Price: fmt.Sprintf("%.6f", s.factor(t.Name)*s.table.SpotPrice(t.Name, n.Zone, at)),
				Time: wire.Timestamp(s.fromSimulated(at)), Zone: n.Zone, ZoneID: n.ZoneID,
			})
		}
	}
	return out
}

// price returns the current price of an instance type.
func (s *Server) price(t instancetypes.Type, zone, capacityType string) float64 {
	if capacityType == Spot {
		return s.factor(t.Name) * s.table.SpotPrice(t.Name, zone, s.simulated(time.Now()))
	}
	return s.factor(t.Name) * t.Price
}

package aws

import (
	"context"
	"errors"
	"maps"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Offer is what EC2 offers in a region at one moment.
type Offer struct {
	// Types are the instance types with the zones that have them, sorted by name.
	Types []catalog.Facts
	// OnDemand is USD per hour by instance type.
	OnDemand map[string]float64
	// Spot is USD per hour by zone and instance type.
	Spot map[string]map[string]float64
	// Rates are the prices of what nodes use beside their instances; nil for the built-in ones.
	Rates *catalog.Rates
}

// ReadOffer asks EC2 and the Price List API for a region's offer, once. It needs ec2:DescribeInstanceTypes, DescribeInstanceTypeOfferings and
// DescribeSpotPriceHistory, and pricing:GetProducts for other on-demand prices than the built-in ones. It returns an error without instance
// types or spot prices.
func ReadOffer(ctx context.Context, cfg awssdk.Config) (Offer, error) {
	// No call that is made here names a cluster.
	c, err := New(Config{AWS: cfg, ClusterName: "none", Logger: klog.FromContext(ctx)})
	if err != nil {
		return Offer{}, err
	}
	known, err := c.market(ctx)
	if err != nil {
		return Offer{}, err
	}
	if known.spotAt.IsZero() {
		return Offer{}, errors.New("reading what EC2 offers: there are no spot prices (ec2:DescribeSpotPriceHistory)")
	}
	out := Offer{OnDemand: known.onDemand, Spot: map[string]map[string]float64{}, Rates: known.rates}
	for _, name := range slices.Sorted(maps.Keys(known.facts)) {
		out.Types = append(out.Types, known.facts[name])
	}
	for name, zones := range known.spot {
		for zone, usd := range zones {
			if out.Spot[zone] == nil {
				out.Spot[zone] = map[string]float64{}
			}
			out.Spot[zone][name] = usd
		}
	}
	return out, nil
}

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

// ReadOffer asks EC2 and the Price List API for a region's offer, once. It needs ec2:DescribeInstanceTypes, DescribeInstanceTypeOfferings and
// DescribeSpotPriceHistory, and pricing:GetProducts for other on-demand prices than the built-in ones. It returns an error without instance
// types or spot prices.
func ReadOffer(ctx context.Context, cfg awssdk.Config) (catalog.RegionOffer, error) {
	// No call that is made here names a cluster.
	c, err := New(Config{AWS: cfg, ClusterName: "none", Logger: klog.FromContext(ctx)})
	if err != nil {
		return catalog.RegionOffer{}, err
	}
	known, err := c.market(ctx)
	if err != nil {
		return catalog.RegionOffer{}, err
	}
	if known.spotAt.IsZero() {
		return catalog.RegionOffer{}, errors.New("reading what EC2 offers: there are no spot prices (ec2:DescribeSpotPriceHistory)")
	}
	out := catalog.RegionOffer{OnDemand: known.onDemand, Dedicated: known.dedicated, Spot: map[string]map[string]float64{}, Rates: known.rates}
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

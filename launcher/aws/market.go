package aws

import (
	"context"
	"fmt"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// fetchFacts asks EC2 for the instance types that Linux nodes can use, and for the zones in which they are offered.
func (c *Cloud) fetchFacts(ctx context.Context) (map[string]catalog.Facts, error) {
	zones, err := c.fetchZones(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]catalog.Facts{}
	pages := ec2.NewDescribeInstanceTypesPaginator(c.offer, &ec2.DescribeInstanceTypesInput{
		MaxResults: awssdk.Int32(100),
		Filters: []ec2types.Filter{
			filter("supported-virtualization-type", "hvm"),
			filter("processor-info.supported-architecture", "x86_64", "arm64"),
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing instance types: %w", err)
		}
		for _, info := range page.InstanceTypes {
			if f, ok := fromec2.Facts(info); ok && len(zones[f.Name]) > 0 {
				f.Zones = zones[f.Name]
				out[f.Name] = f
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("EC2 returned no instance type for region %s", c.cfg.AWS.Region)
	}
	return out, nil
}

// fetchZones returns the zones in which each instance type is offered, sorted.
func (c *Cloud) fetchZones(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(c.offer, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: ec2types.LocationTypeAvailabilityZone, MaxResults: awssdk.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing instance type offerings: %w", err)
		}
		for _, o := range page.InstanceTypeOfferings {
			name := string(o.InstanceType)
			out[name] = append(out[name], awssdk.ToString(o.Location))
		}
	}
	for _, zones := range out {
		slices.Sort(zones)
	}
	return out, nil
}

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
)

// onDemandPrices maps instance type to USD per hour.
type onDemandPrices map[string]float64

// spotPrices maps instance type and zone to USD per hour.
type spotPrices map[string]map[string]float64

// pricingRegion returns the nearest region that has an endpoint of the Price List API: only few have one (AWS Billing user guide, "Price
// List Query API endpoints").
func pricingRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "eu-"):
		return "eu-central-1"
	}
	return "us-east-1"
}

// fetchOnDemandPrices asks for the Linux prices of the region: shared tenancy, and bare metal, which the price list files under dedicated
// tenancy.
func (c *Cloud) fetchOnDemandPrices(ctx context.Context) (onDemandPrices, error) {
	out := onDemandPrices{}
	for _, kind := range []struct{ tenancy, family string }{
		{"Shared", "Compute Instance"},
		{"Dedicated", "Compute Instance (bare metal)"},
	} {
		pages := pricing.NewGetProductsPaginator(c.pricing, &pricing.GetProductsInput{
			ServiceCode: awssdk.String("AmazonEC2"), MaxResults: awssdk.Int32(100),
			Filters: priceFilters(map[string]string{
				"regionCode": c.cfg.AWS.Region, "serviceCode": "AmazonEC2", "preInstalledSw": "NA",
				"operatingSystem": "Linux", "capacitystatus": "Used", "marketoption": "OnDemand",
				"tenancy": kind.tenancy, "productFamily": kind.family,
			}),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("reading on-demand prices: %w", err)
			}
			for _, text := range page.PriceList {
				if instanceType, price, ok := parsePrice(text, c.currency()); ok {
					out[instanceType] = price
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the Price List API returned no on-demand price for region %s", c.cfg.AWS.Region)
	}
	return out, nil
}

func (c *Cloud) currency() string {
	if strings.HasPrefix(c.cfg.AWS.Region, "cn-") {
		return "CNY"
	}
	return "USD"
}

func priceFilters(terms map[string]string) []pricingtypes.Filter {
	var out []pricingtypes.Filter
	for _, field := range sortedKeys(terms) {
		out = append(out, pricingtypes.Filter{
			Field: awssdk.String(field), Value: awssdk.String(terms[field]), Type: pricingtypes.FilterTypeTermMatch,
		})
	}
	return out
}

// parsePrice parses one product of the price list. ok is false if it is not an instance type or costs nothing (a product that a reservation
// covers).
func parsePrice(text, currency string) (instanceType string, price float64, ok bool) {
	var product struct {
		Product struct {
			Attributes struct {
				InstanceType string `json:"instanceType"`
			} `json:"attributes"`
		} `json:"product"`
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			} `json:"OnDemand"`
		} `json:"terms"`
	}
	if err := json.Unmarshal([]byte(text), &product); err != nil || product.Product.Attributes.InstanceType == "" {
		return "", 0, false
	}
	for _, term := range product.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			p, err := strconv.ParseFloat(dimension.PricePerUnit[currency], 64)
			if err == nil && p > 0 {
				return product.Product.Attributes.InstanceType, p, true
			}
		}
	}
	return "", 0, false
}

// fetchSpotPrices asks EC2 for the current spot prices.
func (c *Cloud) fetchSpotPrices(ctx context.Context) (spotPrices, error) {
	out := spotPrices{}
	latest := map[[2]string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(c.offer, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"},
		// With the current time as start, EC2 returns the current price, once per type and zone.
		StartTime: awssdk.Time(time.Now()), MaxResults: awssdk.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx, fewAttempts)
		if err != nil {
			return nil, fmt.Errorf("describing spot price history: %w", err)
		}
		for _, p := range page.SpotPriceHistory {
			price, err := strconv.ParseFloat(awssdk.ToString(p.SpotPrice), 64)
			name, zone, at := string(p.InstanceType), awssdk.ToString(p.AvailabilityZone), awssdk.ToTime(p.Timestamp)
			key := [2]string{name, zone}
			if before, seen := latest[key]; err != nil || price <= 0 || seen && before.After(at) {
				continue
			}
			latest[key] = at
			if out[name] == nil {
				out[name] = map[string]float64{}
			}
			out[name][zone] = price
		}
	}
	return out, nil
}

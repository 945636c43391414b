// Package pricelist reads what nodes cost from the Price List API: instances on demand, and what they use beside. It decides nothing: which
// prices are used when AWS has none is launcher/aws's.
package pricelist

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
)

// List is the price list of one region. Its methods may be called concurrently.
type List struct {
	client   *pricing.Client
	region   string
	currency string
	// absent returns the reason of an error that a retry does not change, such as a missing permission.
	absent func(error) (reason string, ok bool)
}

// New returns the price list of a region. A call is tried so many times. absent returns the reason of an error that a retry does not change.
func New(cfg awssdk.Config, attempts int, absent func(error) (reason string, ok bool)) *List {
	client := pricing.NewFromConfig(cfg, func(o *pricing.Options) {
		o.Region = endpoint(cfg.Region)
		o.Retryer = retry.AddWithMaxAttempts(o.Retryer, attempts)
	})
	l := &List{client: client, region: cfg.Region, currency: "USD", absent: absent}
	if strings.HasPrefix(cfg.Region, "cn-") {
		l.currency = "CNY"
	}
	return l
}

// endpoint returns the nearest region that has an endpoint of the Price List API: only few have one (AWS Billing user guide, "Price
// List Query API endpoints").
func endpoint(region string) string {
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

// OnDemand returns the Linux prices of the region by instance type, in USD per hour: shared tenancy, and bare metal, which the price list
// files under dedicated tenancy. A price that cannot be used is replaced by that of the table, if it has one, and is listed among the faults. An answer
// that lacks either kind is an error.
func (l *List) OnDemand(ctx context.Context, table map[string]float64) (prices map[string]float64, faults []string, err error) {
	prices = map[string]float64{}
	replaced := map[string]float64{}
	for _, kind := range []struct{ tenancy, family string }{
		{"Shared", instances},
		{"Dedicated", "Compute Instance (bare metal)"},
	} {
		listed := false
		err := l.instances(ctx, kind.tenancy, kind.family, func(name string, usd float64, bad error) {
			listed = listed || bad != nil || usd > 0
			switch {
			case bad != nil:
				faults = append(faults, name+": "+bad.Error())
				replaced[name] = table[name]
			case usd > 0:
				prices[name] = usd
			}
		})
		if err != nil {
			return nil, nil, fmt.Errorf("reading on-demand prices: %w", err)
		}
		if !listed {
			return nil, nil, fmt.Errorf("the Price List API returned no on-demand price of the product family %q for region %s", kind.family, l.region)
		}
	}
	for name, usd := range replaced {
		if _, ok := prices[name]; !ok && usd > 0 {
			prices[name] = usd
		}
	}
	if len(prices) == 0 {
		return nil, nil, fmt.Errorf("the Price List API returned no usable on-demand price for region %s", l.region)
	}
	return prices, faults, nil
}

// instances is the product family of instances that are no bare metal.
const instances = "Compute Instance"

// Dedicated returns the Linux prices of the region by instance type, in USD per hour, for dedicated tenancy. A price that cannot be used is left out, and is
// listed among the faults.
func (l *List) Dedicated(ctx context.Context) (prices map[string]float64, faults []string, err error) {
	prices = map[string]float64{}
	err = l.instances(ctx, "Dedicated", instances, func(name string, usd float64, bad error) {
		switch {
		case bad != nil:
			faults = append(faults, name+": "+bad.Error())
		case usd > 0:
			prices[name] = usd
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading prices of dedicated tenancy: %w", err)
	}
	return prices, faults, nil
}

// instances calls each with the Linux price on demand of each instance type of a tenancy and product family, or with why it cannot be used.
func (l *List) instances(ctx context.Context, tenancy, family string, each func(name string, usd float64, bad error)) error {
	filters := termMatch(map[string]string{
		"regionCode": l.region, "serviceCode": "AmazonEC2", "preInstalledSw": "NA",
		"operatingSystem": "Linux", "capacitystatus": "Used", "marketoption": "OnDemand",
		"tenancy": tenancy, "productFamily": family,
	})
	return l.products(ctx, "AmazonEC2", filters, func(p product) {
		if name := p.Product.Attributes.InstanceType; name != "" {
			usd, _, bad := p.price(l.currency)
			each(name, usd, bad)
		}
	})
}

// products calls each with all products of a service that match the filters. A product that cannot be parsed is left out.
func (l *List) products(ctx context.Context, service string, filters []pricingtypes.Filter, each func(product)) error {
	pages := pricing.NewGetProductsPaginator(l.client, &pricing.GetProductsInput{
		ServiceCode: awssdk.String(service), MaxResults: awssdk.Int32(100), Filters: filters,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, text := range page.PriceList {
			var p product
			if json.Unmarshal([]byte(text), &p) == nil {
				each(p)
			}
		}
	}
	return nil
}

// termMatch returns filters of products whose attributes have exactly these values.
func termMatch(attributes map[string]string) []pricingtypes.Filter {
	var out []pricingtypes.Filter
	for field, value := range attributes {
		out = append(out, pricingtypes.Filter{
			Field: awssdk.String(field), Value: awssdk.String(value), Type: pricingtypes.FilterTypeTermMatch,
		})
	}
	return out
}

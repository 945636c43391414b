package pricelist

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// rateSheet is a catalog.RateSheet that products of the price list fill in.
type rateSheet struct {
	*catalog.RateSheet
	// faults are the prices that cannot be used.
	faults []string
}

func newRateSheet() *rateSheet { return &rateSheet{RateSheet: catalog.NewRateSheet()} }

// read takes the price of a product, if it is one of the sheet's.
func (s *rateSheet) read(p product, currency string) {
	have := p.Product.Attributes
	usage, ok := s.Find(have.UsageType)
	if in := have.LocationType; !ok || in != "" && in != "AWS Region" { // Local Zones have prices of their own.
		return
	}
	usd, unit, err := p.price(currency)
	if err != nil {
		s.faults = append(s.faults, have.UsageType+": "+err.Error())
		return
	}
	if strings.HasPrefix(strings.ToLower(unit), "gibps") {
		usd /= 1024
	}
	if usd > 0 {
		s.Set(usage, usd)
	}
}

// rateQuery selects products of the price list.
type rateQuery struct {
	service string
	filters []pricingtypes.Filter
}

// rateQueries returns what to ask the Price List API for. A volume type's size, IOPS and throughput are products with its API name.
func rateQueries(region string) []rateQuery {
	out := []rateQuery{
		{"AmazonVPC", append(termMatch(map[string]string{"regionCode": region}), pricingtypes.Filter{
			Field: awssdk.String("usagetype"), Value: awssdk.String(catalog.UsagePublicIPv4), Type: pricingtypes.FilterTypeContains,
		})},
		{"AmazonEC2", termMatch(map[string]string{"regionCode": region, "productFamily": "CPU Credits", "operatingSystem": "Linux"})},
	}
	for _, volume := range slices.Sorted(maps.Keys(catalog.BuiltinRates().Volumes)) {
		out = append(out, rateQuery{"AmazonEC2", termMatch(map[string]string{"regionCode": region, "volumeApiName": volume})})
	}
	return out
}

// Answer is what the Price List API has of a region's rates.
type Answer struct {
	// Rates have the built-in price where the API has none that can be used.
	Rates *catalog.Rates
	// Answered means that the API returned a price.
	Answered bool
	// Builtin are the usage types whose price is the built-in one, sorted.
	Builtin []string
	// Faults are the prices that cannot be used, and the services that refused, sorted.
	Faults []string
}

// Rates asks for the region's prices of volumes, public IPv4 addresses and CPU credits.
func (l *List) Rates(ctx context.Context) (Answer, error) {
	sheet := newRateSheet()
	for _, q := range rateQueries(l.region) {
		err := l.products(ctx, q.service, q.filters, func(p product) { sheet.read(p, l.currency) })
		if err == nil {
			continue
		}
		why, absent := l.absent(err)
		if !absent {
			return Answer{}, fmt.Errorf("reading prices of volumes, addresses and CPU credits: %w", err)
		}
		sheet.faults = append(sheet.faults, q.service+": "+why)
	}
	slices.Sort(sheet.faults)
	rates, builtin := sheet.Done()
	return Answer{Rates: rates, Answered: len(builtin) < len(catalog.UsageTypes()), Builtin: builtin, Faults: slices.Compact(sheet.faults)}, nil
}

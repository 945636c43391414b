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

// The usage types of what nodes use beside their instances, without the prefix of their region. They are those of AWS's bill and price list.
const (
	usageVolume     = "EBS:VolumeUsage"
	usageIOPS       = "EBS:VolumeP-IOPS"
	usageThroughput = "EBS:VolumeP-Throughput"
	usagePublicIPv4 = "PublicIPv4:InUseAddress"
	usageCPUCredits = "CPUCredits:"
)

// volumeUsages returns the EBS volume types with the ends of their usage types.
func volumeUsages() map[string]string {
	return map[string]string{"gp2": ".gp2", "gp3": ".gp3", "io1": ".piops", "io2": ".io2", "st1": ".st1", "sc1": ".sc1", "standard": ""}
}

// rateSheet is Rates while they are filled in. Each of its prices is set by its usage type.
type rateSheet struct {
	rates   catalog.Rates
	volumes map[string]*catalog.VolumeRate
	// unset are the usage types whose price is the built-in one.
	unset map[string]func(usd float64)
	// faults are the prices that cannot be used.
	faults []string
}

// newRateSheet returns the built-in prices.
func newRateSheet() *rateSheet {
	s := &rateSheet{rates: *catalog.BuiltinRates(), volumes: map[string]*catalog.VolumeRate{}}
	s.unset = map[string]func(float64){usagePublicIPv4: func(usd float64) { s.rates.PublicIPv4 = usd }}
	for volume, end := range volumeUsages() {
		rate := s.rates.Volumes[volume]
		s.volumes[volume] = &rate
		s.unset[usageVolume+end] = func(usd float64) { rate.GiB = usd }
		if rate.IOPS > 0 {
			s.unset[usageIOPS+end] = func(usd float64) { rate.IOPS = usd }
		}
		if rate.MiBps > 0 {
			s.unset[usageThroughput+end] = func(usd float64) { rate.MiBps = usd }
		}
		for i, builtin := range rate.Tiers {
			if builtin > 0 {
				s.unset[fmt.Sprintf("%s%s.tier%d", usageIOPS, end, i+2)] = func(usd float64) { rate.Tiers[i] = usd }
			}
		}
	}
	for family := range s.rates.SurplusCPU {
		s.unset[usageCPUCredits+family] = func(usd float64) { s.rates.SurplusCPU[family] = usd }
	}
	return s
}

// read takes the price of a product, if it is one of the sheet's.
func (s *rateSheet) read(p product, currency string) {
	have := p.Product.Attributes
	if in := have.LocationType; in != "" && in != "AWS Region" {
		return // Local Zones have prices of their own.
	}
	for usage, set := range s.unset {
		if have.UsageType != usage && !strings.HasSuffix(have.UsageType, "-"+usage) {
			continue
		}
		usd, unit, err := p.price(currency)
		switch {
		case err != nil:
			s.faults = append(s.faults, have.UsageType+": "+err.Error())
		case usd > 0:
			if strings.HasPrefix(strings.ToLower(unit), "gibps") {
				usd /= 1024
			}
			set(usd)
			delete(s.unset, usage)
		}
		return
	}
}

// done returns the rates, and the usage types whose price is the built-in one.
func (s *rateSheet) done() (*catalog.Rates, []string) {
	for volume, rate := range s.volumes {
		s.rates.Volumes[volume] = *rate
	}
	return &s.rates, slices.Sorted(maps.Keys(s.unset))
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
			Field: awssdk.String("usagetype"), Value: awssdk.String(usagePublicIPv4), Type: pricingtypes.FilterTypeContains,
		})},
		{"AmazonEC2", termMatch(map[string]string{"regionCode": region, "productFamily": "CPU Credits", "operatingSystem": "Linux"})},
	}
	for _, volume := range slices.Sorted(maps.Keys(volumeUsages())) {
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

// UsageTypes returns the usage types that Rates have prices of, sorted.
func UsageTypes() []string { return slices.Sorted(maps.Keys(newRateSheet().unset)) }

// Rates asks for the region's prices of volumes, public IPv4 addresses and CPU credits.
func (l *List) Rates(ctx context.Context) (Answer, error) {
	sheet := newRateSheet()
	all := len(sheet.unset)
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
	rates, builtin := sheet.done()
	return Answer{Rates: rates, Answered: len(builtin) < all, Builtin: builtin, Faults: slices.Compact(sheet.faults)}, nil
}

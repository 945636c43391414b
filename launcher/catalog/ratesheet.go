package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UsagePublicIPv4 is the usage type of a public IPv4 address in use, without the prefix of its region.
const UsagePublicIPv4 = "PublicIPv4:InUseAddress"

// RateSheet is Rates while they are filled in. Each price is named by its usage type as AWS's bill and price list have it, without the prefix of
// the region.
type RateSheet struct {
	rates   Rates
	volumes map[string]*VolumeRate
	surplus map[string]*float64
	// places have the price of each usage type; unset are those that still have the built-in one.
	places map[string]*float64
	unset  map[string]bool
}

// NewRateSheet returns a sheet with the built-in prices.
func NewRateSheet() *RateSheet {
	s := newSheet(BuiltinRates())
	for usage := range s.places {
		s.unset[usage] = true
	}
	return s
}

// newSheet returns a sheet with prices; Done replaces them.
func newSheet(rates *Rates) *RateSheet {
	s := &RateSheet{rates: *rates, volumes: map[string]*VolumeRate{}, surplus: map[string]*float64{}, unset: map[string]bool{}}
	s.places = map[string]*float64{UsagePublicIPv4: &s.rates.PublicIPv4}
	for volume, rate := range s.rates.Volumes {
		s.volumes[volume] = &rate
		s.volume(&rate, usageEnd(volume))
	}
	for family, usd := range s.rates.SurplusCPU {
		s.surplus[family], s.places["CPUCredits:"+family] = &usd, &usd
	}
	return s
}

// volume adds the usage types of an EBS volume type: its size, and what of it has a price besides.
func (s *RateSheet) volume(rate *VolumeRate, end string) {
	s.places["EBS:VolumeUsage"+end] = &rate.GiB
	if rate.IOPS > 0 {
		s.places["EBS:VolumeP-IOPS"+end] = &rate.IOPS
	}
	if rate.MiBps > 0 {
		s.places["EBS:VolumeP-Throughput"+end] = &rate.MiBps
	}
	for i := range rate.Tiers {
		if rate.Tiers[i] > 0 {
			s.places[fmt.Sprintf("EBS:VolumeP-IOPS%s.tier%d", end, i+2)] = &rate.Tiers[i]
		}
	}
}

// ByUsageType returns the prices by usage type, as RateSheet.Set has them: the built-in ones of nil.
func (r *Rates) ByUsageType() map[string]float64 {
	if r == nil {
		r = BuiltinRates()
	}
	out := map[string]float64{}
	for usage, usd := range newSheet(r).places {
		out[usage] = *usd
	}
	return out
}

// usageEnd returns the end of a volume type's usage types.
func usageEnd(volume string) string {
	switch volume {
	case "standard":
		return ""
	case "io1":
		return ".piops"
	}
	return "." + volume
}

// UsageTypes returns the usage types of a sheet, sorted.
func UsageTypes() []string { return slices.Sorted(maps.Keys(NewRateSheet().places)) }

// Find returns the sheet's name of a usage type, which may have the prefix of a region.
func (s *RateSheet) Find(usageType string) (string, bool) {
	for usage := range s.places {
		if usageType == usage || strings.HasSuffix(usageType, "-"+usage) {
			return usage, true
		}
	}
	return "", false
}

// Set sets the price of one of the sheet's usage types: USD per month of a GiB, an I/O operation per second or a MiB per second, USD per hour of an
// address or of a vCPU.
func (s *RateSheet) Set(usage string, usd float64) {
	if place, ok := s.places[usage]; ok {
		*place = usd
		delete(s.unset, usage)
	}
}

// Done returns the rates, and the usage types whose price is the built-in one, sorted.
func (s *RateSheet) Done() (*Rates, []string) {
	for volume, rate := range s.volumes {
		s.rates.Volumes[volume] = *rate
	}
	for family, usd := range s.surplus {
		s.rates.SurplusCPU[family] = *usd
	}
	return &s.rates, slices.Sorted(maps.Keys(s.unset))
}

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
	// places set the price of each usage type; unset are those that still have the built-in one.
	places map[string]func(usd float64)
	unset  map[string]bool
}

// NewRateSheet returns a sheet with the built-in prices.
func NewRateSheet() *RateSheet {
	s := &RateSheet{rates: *BuiltinRates(), volumes: map[string]*VolumeRate{}, unset: map[string]bool{}}
	s.places = map[string]func(float64){UsagePublicIPv4: func(usd float64) { s.rates.PublicIPv4 = usd }}
	for volume, rate := range s.rates.Volumes {
		s.volumes[volume] = &rate
		s.volume(&rate, usageEnd(volume))
	}
	for family := range s.rates.SurplusCPU {
		s.places["CPUCredits:"+family] = func(usd float64) { s.rates.SurplusCPU[family] = usd }
	}
	for usage := range s.places {
		s.unset[usage] = true
	}
	return s
}

// volume adds the usage types of an EBS volume type: its size, and what of it has a price besides.
func (s *RateSheet) volume(rate *VolumeRate, end string) {
	s.places["EBS:VolumeUsage"+end] = func(usd float64) { rate.GiB = usd }
	if rate.IOPS > 0 {
		s.places["EBS:VolumeP-IOPS"+end] = func(usd float64) { rate.IOPS = usd }
	}
	if rate.MiBps > 0 {
		s.places["EBS:VolumeP-Throughput"+end] = func(usd float64) { rate.MiBps = usd }
	}
	for i, builtin := range rate.Tiers {
		if builtin > 0 {
			s.places[fmt.Sprintf("EBS:VolumeP-IOPS%s.tier%d", end, i+2)] = func(usd float64) { rate.Tiers[i] = usd }
		}
	}
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
	if set, ok := s.places[usage]; ok {
		set(usd)
		delete(s.unset, usage)
	}
}

// Done returns the rates, and the usage types whose price is the built-in one, sorted.
func (s *RateSheet) Done() (*Rates, []string) {
	for volume, rate := range s.volumes {
		s.rates.Volumes[volume] = *rate
	}
	return &s.rates, slices.Sorted(maps.Keys(s.unset))
}

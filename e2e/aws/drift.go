package aws

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// drift holds the changes of an account and its market since the start.
type drift struct {
	mu sync.Mutex
	// prices are factors on the prices of instance types and usage types; "all" applies to all instance types.
	prices map[string]float64
	// repriced are all changes of prices, in the order of time.
	repriced []repriced
	// tagsAfter replaces Config.TagsAfter.
	tagsAfter *time.Duration
}

// repriced is a change of prices.
type repriced struct {
	at     time.Time
	name   string
	factor float64
}

// factor returns the first factor that one of the names has.
func (d *drift) factor(names ...string) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if f, ok := d.prices[name]; ok {
			return f
		}
	}
	return 1
}

// rates returns the prices within a time: those of the market, which may change at the steps, times the factor that the first of the names has. Equal ones
// are one.
func (d *drift) rates(from, to time.Time, steps []time.Time, market func(time.Time) float64, names ...string) []meter.Rate {
	d.mu.Lock()
	changes := slices.Clone(d.repriced)
	d.mu.Unlock()
	cuts := append([]time.Time{from}, steps...)
	for _, c := range changes {
		if slices.Contains(names, c.name) && c.at.After(from) && c.at.Before(to) {
			cuts = append(cuts, c.at)
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	var out []meter.Rate
	for _, at := range cuts {
		usd := market(at) * factorAt(changes, at, names)
		if n := len(out); n == 0 || math.Abs(out[n-1].USD-usd) > 1e-12 {
			out = append(out, meter.Rate{From: at, USD: usd})
		}
	}
	return out
}

// factorAt returns the factor at a time of the first name that has one.
func factorAt(changes []repriced, at time.Time, names []string) float64 {
	for _, name := range names {
		factor, found := 1.0, false
		for _, c := range changes {
			if c.name == name && !c.at.After(at) {
				factor, found = c.factor, true
			}
		}
		if found {
			return factor
		}
	}
	return 1
}

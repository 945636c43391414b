package aws

import (
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// lifetime is an instance as it is metered, without its prices.
type lifetime struct {
	meter.Instance
	// prepaid means that the instance runs in a Capacity Block, which is paid in advance.
	prepaid bool
	// dedicated means that it has the prices of dedicated tenancy.
	dedicated bool
}

// Meter keeps the account's bill as AWS counts it, in real time. Its methods may be called concurrently.
type Meter struct {
	// started is when the server was made.
	started     time.Time
	table       *instancetypes.Table
	drift       *drift
	commitments *Commitments
	// instances returns those of the account.
	instances func() []lifetime
	// simulated returns the simulated time at a real time; fromSimulated is its inverse.
	simulated     func(time.Time) time.Duration
	fromSimulated func(time.Duration) time.Time
}

// Bill returns what the account has paid from the server's start until a time. Prices are those of the price list and of the spot market at each moment.
func (b *Meter) Bill(to time.Time) meter.Bill {
	account := meter.Account{Prices: map[string][]meter.Rate{}}
	for _, u := range instancetypes.Usages() {
		account.Prices[strings.TrimPrefix(u.Type, "USE1-")] = b.drift.rates(b.started, to, nil, func(time.Time) float64 { return u.USD }, u.Type)
	}
	for _, h := range b.instances() {
		if !h.prepaid {
			h.Rates = b.rates(h.Instance, to)
		}
		for i := range h.Rates {
			if h.dedicated {
				h.Rates[i].USD *= instancetypes.DedicatedFactor
			}
		}
		account.Instances = append(account.Instances, h.Instance)
	}
	b.commitments.metered(&account)
	return account.Bill(b.started, to)
}

// rates returns the prices of an instance until it ends, or until a time.
func (b *Meter) rates(in meter.Instance, to time.Time) []meter.Rate {
	if !in.Ending.IsZero() {
		to = in.Ending
	}
	if in.Spot {
		price := func(at time.Time) float64 { return b.table.SpotPrice(in.Type, in.Zone, b.simulated(at)) }
		return b.drift.rates(in.Launched, to, b.spotSteps(in.Launched, to), price, in.Type, all)
	}
	info, _ := b.table.Get(in.Type)
	return b.drift.rates(in.Launched, to, nil, func(time.Time) float64 { return info.Price }, in.Type, all)
}

// spotSteps returns when spot prices change within a time.
func (b *Meter) spotSteps(from, to time.Time) []time.Time {
	var out []time.Time
	for step := instancetypes.Step(b.simulated(from)) + 1; ; step++ {
		at := b.fromSimulated(instancetypes.StepStart(step))
		if !at.Before(to) {
			return out
		}
		out = append(out, at)
	}
}

// metered adds the commitments to an account.
func (c *Commitments) metered(account *meter.Account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.plans {
		plan := meter.SavingsPlan{ID: p.id, Family: p.Family, USDPerHour: p.USDPerHour, Rates: map[string]float64{}, Start: p.Ends.Add(-term), End: p.Ends}
		for _, r := range c.rates(p) {
			if strings.HasPrefix(r.usageType, "BoxUsage:") && r.product == "Linux/UNIX" && r.tenancy == "shared" {
				plan.Rates[r.instanceType] = r.usd
			}
		}
		account.Plans = append(account.Plans, plan)
	}
	for _, r := range c.reserved {
		if r.product() != "Linux/UNIX" {
			continue
		}
		account.Reserved = append(account.Reserved, meter.Reserved{
			ID: r.id, Type: r.InstanceType, Zone: r.Zone, Count: r.Count, Upfront: r.Upfront, Hourly: r.Hourly, Start: r.Ends.Add(-term), End: r.Ends,
		})
	}
}

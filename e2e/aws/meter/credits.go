package meter

import (
	"strings"
	"time"
)

// earned returns how many credits an instance earns per hour; 0 for one that is not burstable or not launched in unlimited mode, as T2 is not (EC2 User
// Guide, "Key concepts for burstable performance instances", table "CPU credits earned per hour", November 2026). A credit is one vCPU for a minute.
func earned(instanceType string) float64 {
	family, size, _ := strings.Cut(instanceType, ".")
	if family != "t3" && family != "t3a" && family != "t4g" {
		return 0
	}
	return map[string]float64{"nano": 6, "micro": 12, "small": 24, "medium": 24, "large": 36, "xlarge": 96, "2xlarge": 192}[size]
}

// credits returns what is charged for surplus credits within a time: those beyond what the instance can earn in 24 hours at the end of each hour, and
// all that are left when it ends.
func (a *Account) credits(in *Instance, from, to time.Time) float64 {
	perHour := earned(in.Type)
	if perHour == 0 || in.Running.IsZero() || len(in.CPU) == 0 {
		return 0
	}
	family, _, _ := strings.Cut(in.Type, ".")
	sum := 0.0
	charge := func(credits float64, at time.Time) {
		if credits > 0 && at.After(from) && !at.After(to) {
			sum += credits / 60 * a.priceAt("CPUCredits:"+family, at)
		}
	}
	end := in.Ending
	if end.IsZero() || end.After(to) {
		end = to
	}
	account := account{most: 24 * perHour}
	pieces(in.Running, end, in.nextHourOrLoad, func(from, to time.Time) {
		account.spend((in.load(from)*60 - perHour) * to.Sub(from).Hours())
		if in.hourEnds(to) {
			charge(account.over(account.most), to)
		}
	})
	if !in.Ending.IsZero() && !in.Ending.After(to) {
		charge(account.over(0), in.Ending)
	}
	return sum
}

// account is the credits of an instance: it has either a balance or a surplus that was spent.
type account struct{ most, balance, surplus float64 }

// spend takes credits; a negative number of them is earned. Credits beyond those of 24 hours are lost.
func (c *account) spend(credits float64) {
	net := c.balance - c.surplus - credits
	c.balance, c.surplus = min(max(net, 0), c.most), max(-net, 0)
}

// over takes what was spent beyond an allowance.
func (c *account) over(allowed float64) float64 {
	out := max(c.surplus-allowed, 0)
	c.surplus -= out
	return out
}

// load returns how many vCPUs are busy at a time.
func (in *Instance) load(at time.Time) float64 {
	out := 0.0
	for _, l := range in.CPU {
		if !l.From.After(at) {
			out = l.VCPUs
		}
	}
	return out
}

// hourEnds reports whether an hour of the instance ends at a time. Hours are counted from when it runs.
func (in *Instance) hourEnds(at time.Time) bool { return at.Sub(in.Running)%time.Hour == 0 }

func (in *Instance) nextHourOrLoad(at time.Time) time.Time {
	next := in.Running.Add(at.Sub(in.Running).Truncate(time.Hour) + time.Hour)
	for _, l := range in.CPU {
		if l.From.After(at) && l.From.Before(next) {
			next = l.From
		}
	}
	return next
}

// priceAt returns the price of a usage type at a time.
func (a *Account) priceAt(usageType string, at time.Time) float64 {
	usd := 0.0
	for i, r := range a.Prices[usageType] {
		if i == 0 || !r.From.After(at) {
			usd = r.USD
		}
	}
	return usd
}

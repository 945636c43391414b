package meter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commitment is a plan or reservation as it is applied.
type commitment struct {
	// of is what it cost and how much of it was used.
	of Use
	// rank orders them as AWS applies them.
	rank int
	// start and end are its term.
	start, end time.Time
	// has is what it pays with per hour, in the unit of pay; usd what it costs per hour.
	has, usd float64
	// pay pays for running instances and returns what is left of an amount.
	pay func(running []*usage, amount float64) float64
}

// commitments returns those of the account: the plans, then the Reserved Instances.
func (a *Account) commitments() []*commitment {
	var out []*commitment
	for i := range a.Plans {
		p := &a.Plans[i]
		c := &commitment{of: Use{ID: p.ID}, rank: 2, start: p.Start, end: p.End, has: p.USDPerHour, usd: p.USDPerHour, pay: p.pay}
		if p.Family == "" {
			c.rank = 3
		}
		out = append(out, c)
	}
	for i := range a.Reserved {
		r := &a.Reserved[i]
		n := float64(r.Count)
		c := &commitment{of: Use{ID: r.ID}, rank: 1, start: r.Start, end: r.End, has: n * r.size(r.Type), usd: n * r.perHour(), pay: r.pay}
		if r.Zone != "" {
			c.rank = 0
		}
		out = append(out, c)
	}
	return out
}

// apply lets the commitments pay, hour by hour, and returns what they cost and how much of each is used.
func (a *Account) apply(ran []usage, from, to time.Time) []Use {
	byHour := map[int64][]*usage{}
	for i := range ran {
		at := ran[i].hour.Unix()
		byHour[at] = append(byHour[at], &ran[i])
	}
	all := a.commitments()
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(x, y *commitment) int { return cmp.Compare(x.rank, y.rank) })
	given := map[*commitment]float64{}
	pieces(from, to, nextHour, func(from, to time.Time) {
		running := byHour[from.UTC().Truncate(time.Hour).Unix()]
		for _, c := range order {
			hours := within(c.start, c.end, from, to)
			given[c] += hours * c.has
			c.of.USD += hours * c.usd
			c.of.Used += hours*c.has - c.pay(running, hours*c.has)
		}
	})
	var out []Use
	for _, c := range all {
		if given[c] > 0 {
			c.of.Used /= given[c]
		}
		out = append(out, c.of)
	}
	return out
}

// within returns how many hours of a time a term has; a zero end is never.
func within(start, end, from, to time.Time) float64 {
	if start.After(from) {
		from = start
	}
	if !end.IsZero() && end.Before(to) {
		to = end
	}
	return max(to.Sub(from).Hours(), 0)
}

// perHour returns what one reserved instance costs per hour, with its share of what is paid upfront.
func (r *Reserved) perHour() float64 {
	if term := r.End.Sub(r.Start).Hours(); r.Upfront > 0 && term > 0 {
		return r.Hourly + r.Upfront/term
	}
	return r.Hourly
}

// flexible reports whether the reservation pays for other sizes: regional ones do, but for bare metal and some families (EC2 User Guide, "Instance
// size flexibility").
func (r *Reserved) flexible() bool {
	if r.Zone != "" || factor(r.Type) == 0 {
		return false
	}
	return !slices.ContainsFunc([]string{"g4ad", "g4dn", "g5", "g6", "gr6", "hpc", "p5", "inf", "u-", "u7i"}, func(prefix string) bool {
		return strings.HasPrefix(r.Type, prefix)
	})
}

// size returns how much of the reservation an instance uses in an hour.
func (r *Reserved) size(instanceType string) float64 {
	if r.flexible() {
		return factor(instanceType)
	}
	return 1
}

// pays reports whether the reservation pays for instances like this one.
func (r *Reserved) pays(in *Instance) bool {
	switch {
	case r.Zone != "":
		return in.Type == r.Type && in.Zone == r.Zone
	case r.flexible():
		return family(in.Type) == family(r.Type) && factor(in.Type) > 0
	}
	return in.Type == r.Type
}

// pay pays for running instances, from the smallest to the largest, and returns what is left of the amount.
func (r *Reserved) pay(running []*usage, amount float64) float64 {
	order := slices.SortedFunc(slices.Values(running), func(x, y *usage) int {
		return cmp.Or(cmp.Compare(factor(x.in.Type), factor(y.in.Type)), strings.Compare(x.in.ID, y.in.ID))
	})
	for _, u := range order {
		if !r.pays(u.in) {
			continue
		}
		hours := min(u.open, amount/r.size(u.in.Type))
		u.open -= hours
		amount -= hours * r.size(u.in.Type)
	}
	return max(amount, 0)
}

// pay pays for running instances, first where the plan saves the largest share, and returns what is left of the USD.
func (p *SavingsPlan) pay(running []*usage, usd float64) float64 {
	order := slices.SortedFunc(slices.Values(running), func(x, y *usage) int {
		a, b := p.Rates[x.in.Type], p.Rates[y.in.Type]
		return cmp.Or(cmp.Compare(a/x.usd, b/y.usd), cmp.Compare(a, b), strings.Compare(x.in.ID, y.in.ID))
	})
	for _, u := range order {
		rate := p.Rates[u.in.Type]
		if rate <= 0 || p.Family != "" && p.Family != family(u.in.Type) {
			continue
		}
		hours := min(u.open, usd/rate)
		u.open -= hours
		usd -= hours * rate
	}
	return max(usd, 0)
}

func family(instanceType string) string {
	out, _, _ := strings.Cut(instanceType, ".")
	return out
}

// factor returns the normalization factor of a size, 0 for one that has none (EC2 User Guide, "Support for modifying Reserved Instances", table of
// normalization factors).
func factor(instanceType string) float64 {
	_, size, _ := strings.Cut(instanceType, ".")
	small := map[string]float64{"nano": 0.25, "micro": 0.5, "small": 1, "medium": 2, "large": 4, "xlarge": 8}
	if f, ok := small[size]; ok {
		return f
	}
	n, err := strconv.Atoi(strings.TrimSuffix(size, "xlarge"))
	if err != nil || !strings.HasSuffix(size, "xlarge") {
		return 0
	}
	return 8 * float64(n)
}

package meter

import "time"

// Rate is a price that holds from a time on, until the next one.
type Rate struct {
	// From is when it begins; zero is always.
	From time.Time
	// USD of it.
	USD float64
}

// Volume is an EBS volume of an instance, made with it.
type Volume struct {
	// Type such as gp3.
	Type string
	// GiB is its size; IOPS and MiBps are what is provisioned, 0 for the default.
	GiB, IOPS, MiBps int
	// Kept means that it outlives the instance.
	Kept bool
}

// Pause is a time for which an instance is stopped.
type Pause struct {
	// From is when it began to stop, Until when it was running again; a zero Until has not come.
	From, Until time.Time
}

// Load is how much CPU an instance uses from a time on.
type Load struct {
	// From is when it begins.
	From time.Time
	// VCPUs that are busy.
	VCPUs float64
}

// Instance is the history of an instance.
type Instance struct {
	// ID, Type and Zone such as i-0123456789abcdef0, m7g.large, us-east-1a.
	ID, Type, Zone string
	// Spot is true for spot instances, Coverable for those that commitments may pay for: Linux on demand with shared tenancy.
	Spot, Coverable bool
	// Dedicated means that its tenancy is dedicated.
	Dedicated bool
	// Interrupted means that EC2 took the spot instance back.
	Interrupted bool
	// Launched, Running, Ending and Terminated are when it became pending, running, shutting-down and terminated; zero for what has not happened.
	Launched, Running, Ending, Terminated time.Time
	// Pauses are the times for which it was stopped, in the order of time. Its volumes are billed, its time and its public addresses are not.
	Pauses []Pause
	// Rates are USD per hour while it runs, in the order of time.
	Rates []Rate
	// Volumes and PublicIPv4 addresses that it has.
	Volumes []Volume
	// PublicIPv4 is their number.
	PublicIPv4 int
	// CPU is how much it uses, in the order of time; none for an idle one.
	CPU []Load
}

// SavingsPlan is a Savings Plan.
type SavingsPlan struct {
	// ID of the plan; Family of an EC2 Instance Savings Plan, empty for a Compute Savings Plan.
	ID, Family string
	// USDPerHour is the commitment.
	USDPerHour float64
	// Rates are USD per hour under the plan by instance type.
	Rates map[string]float64
	// Start and End of the plan; a zero End is never.
	Start, End time.Time
}

// Reserved are Reserved Instances.
type Reserved struct {
	// ID of them; Type such as m5.large; Zone of zonal ones, empty for the region.
	ID, Type, Zone string
	// Count of instances.
	Count int
	// Upfront is USD for one instance and the whole term; Hourly is USD per hour for one instance, used or not.
	Upfront, Hourly float64
	// Start and End of the term.
	Start, End time.Time
}

// Account is what is metered.
type Account struct {
	// Instances of the account.
	Instances []Instance
	// Plans and Reserved are its commitments.
	Plans []SavingsPlan
	// Reserved Instances.
	Reserved []Reserved
	// Prices are those of the price list, by usage type without the prefix of a region and in the list's units: per GB-month, IOPS-month,
	// GiBps-month, hour and vCPU-hour.
	Prices map[string][]Rate
}

// Line is what one instance costs, in USD.
type Line struct {
	// ID of the instance.
	ID string `json:"id"`
	// Hours that it ran, as they are billed.
	Hours float64 `json:"hours"`
	// Instance is its time on demand or on spot, as far as no commitment pays for it.
	Instance float64 `json:"instance"`
	// Covered is what its time that commitments pay for would cost on demand.
	Covered float64 `json:"covered,omitempty"`
	// Volumes, PublicIPv4 and Credits are what it uses beside.
	Volumes float64 `json:"volumes"`
	// PublicIPv4 is what its addresses cost.
	PublicIPv4 float64 `json:"publicIPv4,omitempty"`
	// Credits are surplus CPU credits that are charged.
	Credits float64 `json:"credits,omitempty"`
}

// Total returns the sum of what is paid for the instance beside commitments.
func (l Line) Total() float64 { return l.Instance + l.Volumes + l.PublicIPv4 + l.Credits }

// Use is what a commitment cost, and how much of it was used.
type Use struct {
	// ID of the commitment.
	ID string `json:"id"`
	// USD that it cost.
	USD float64 `json:"usd"`
	// Used is the share that was used, 0 to 1.
	Used float64 `json:"used"`
}

// Bill is what an account pays for a time.
type Bill struct {
	// From and To are the time.
	From time.Time `json:"from"`
	// To is its end.
	To time.Time `json:"to"`
	// Lines are the instances, in the order of the account.
	Lines []Line `json:"lines"`
	// Commitments are the plans, then the Reserved Instances, in the order of the account.
	Commitments []Use `json:"commitments,omitempty"`
	// Fees are those of the region for the hours in which dedicated instances ran.
	Fees float64 `json:"fees,omitempty"`
}

// Sum returns the sum of all lines.
func (b Bill) Sum() Line {
	out := Line{}
	for _, l := range b.Lines {
		out.Hours, out.Instance, out.Covered = out.Hours+l.Hours, out.Instance+l.Instance, out.Covered+l.Covered
		out.Volumes, out.PublicIPv4, out.Credits = out.Volumes+l.Volumes, out.PublicIPv4+l.PublicIPv4, out.Credits+l.Credits
	}
	return out
}

// Committed returns what commitments cost.
func (b Bill) Committed() float64 {
	sum := 0.0
	for _, u := range b.Commitments {
		sum += u.USD
	}
	return sum
}

// Total returns what is paid.
func (b Bill) Total() float64 { return b.Sum().Total() + b.Committed() + b.Fees }

// regionFee is USD for each hour in which at least one dedicated instance of any type runs in the region.
const regionFee = 2

// Bill returns what the account pays from a time to another one.
func (a *Account) Bill(from, to time.Time) Bill {
	out := Bill{From: from, To: to}
	var ran []usage
	dedicated := map[time.Time]bool{}
	for i := range a.Instances {
		in := &a.Instances[i]
		line := Line{ID: in.ID, Volumes: a.volumes(in, from, to), PublicIPv4: a.addresses(in, from, to), Credits: a.credits(in, from, to)}
		for _, u := range in.usage(from, to) {
			u.line = i
			dedicated[u.hour] = dedicated[u.hour] || in.Dedicated
			line.Hours += u.hours
			if in.Coverable {
				ran = append(ran, u)
				continue
			}
			line.Instance += u.hours * u.usd
		}
		out.Lines = append(out.Lines, line)
	}
	for _, ran := range dedicated {
		if ran {
			out.Fees += regionFee
		}
	}
	out.Commitments = a.apply(ran, from, to)
	for _, u := range ran {
		out.Lines[u.line].Instance += u.open * u.usd
		out.Lines[u.line].Covered += (u.hours - u.open) * u.usd
	}
	return out
}

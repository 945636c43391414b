package meter

import (
	"time"
)

// least is the shortest time that is billed.
const least = time.Minute

// usage is time of an instance within one clock hour, at one price.
type usage struct {
	// in is the instance, line its index in the bill.
	in   *Instance
	line int
	// hour is the clock hour that it is in.
	hour time.Time
	// hours is how much of it, open how much of that no commitment pays for.
	hours, open float64
	// usd is the price per hour.
	usd float64
}

// billed returns the time for which something is billed that begins and ends, as far as it is within the bill's time: 60 seconds at least. A zero
// time has not come yet.
func billed(begin, end, from, to time.Time) (time.Time, time.Time) {
	if begin.IsZero() {
		return to, to
	}
	if short := begin.Add(least); !end.IsZero() && end.Before(short) {
		end = short
	}
	if end.IsZero() || end.After(to) {
		end = to
	}
	if begin.Before(from) {
		begin = from
	}
	return begin, end
}

// pieces calls do for each piece of a time in which none of the cuts lies.
func pieces(from, to time.Time, next func(at time.Time) time.Time, do func(from, to time.Time)) {
	for from.Before(to) {
		end := next(from)
		if !end.After(from) || end.After(to) {
			end = to
		}
		do(from, end)
		from = end
	}
}

// nextHour returns the beginning of the next clock hour, nextMonth that of the next month.
func nextHour(at time.Time) time.Time { return at.UTC().Truncate(time.Hour).Add(time.Hour) }

func nextMonth(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

// monthHours is how many hours the month of a time has.
func monthHours(at time.Time) float64 {
	at = at.UTC()
	return nextMonth(at).Sub(time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)).Hours()
}

// each calls do for each piece of a time with its rate. Time before the first rate has the first one.
func each(rates []Rate, from, to time.Time, do func(from, to time.Time, usd float64)) {
	for i, r := range rates {
		begin, end := from, to
		if i > 0 && r.From.After(begin) {
			begin = r.From
		}
		if i+1 < len(rates) && rates[i+1].From.Before(end) {
			end = rates[i+1].From
		}
		if begin.Before(end) {
			do(begin, end, r.USD)
		}
	}
}

// usage returns the time that an instance is billed for, by clock hour and price.
func (in *Instance) usage(from, to time.Time) []usage {
	if in.free() {
		return nil
	}
	var out []usage
	in.runs(in.Running, func(begin, end time.Time) {
		begin, end = billed(begin, end, from, to)
		pieces(begin, end, nextHour, func(from, to time.Time) {
			each(in.Rates, from, to, func(from, to time.Time, usd float64) {
				hours := to.Sub(from).Hours()
				out = append(out, usage{in: in, hour: from.UTC().Truncate(time.Hour), hours: hours, open: hours, usd: usd})
			})
		})
	})
	return out
}

// runs calls do for each time between two pauses, from the beginning until the instance ends. The last one has a zero end while the instance runs.
// EC2 bills each of them by itself, with 60 seconds at least.
func (in *Instance) runs(begin time.Time, do func(begin, end time.Time)) {
	for _, p := range in.Pauses {
		do(begin, p.From)
		if begin = p.Until; begin.IsZero() {
			return
		}
	}
	do(begin, in.Ending)
}

// free reports whether EC2 took a spot instance back within its first hour.
func (in *Instance) free() bool {
	return in.Spot && in.Interrupted && !in.Ending.IsZero() && in.Ending.Sub(in.Running) < time.Hour
}

// price integrates the price of a usage type over a time, in USD and hours.
func (a *Account) price(usageType string, from, to time.Time) float64 {
	sum := 0.0
	each(a.Prices[usageType], from, to, func(from, to time.Time, usd float64) { sum += usd * to.Sub(from).Hours() })
	return sum
}

// volumes returns what the volumes of an instance cost. They are made with it, and deleted once it is terminated.
func (a *Account) volumes(in *Instance, from, to time.Time) float64 {
	sum := 0.0
	for _, v := range in.Volumes {
		end := in.Terminated
		if v.Kept {
			end = time.Time{}
		}
		begin, end := billed(in.Launched, end, from, to)
		pieces(begin, end, nextMonth, func(from, to time.Time) {
			for usageType, amount := range v.amounts() {
				sum += amount * a.price(usageType, from, to) / monthHours(from)
			}
		})
	}
	return sum
}

// amounts returns what is charged of a volume by usage type: its size, and of gp3 and io2 what is provisioned beyond what is included.
func (v Volume) amounts() map[string]float64 {
	name := map[string]string{"standard": "", "io1": ".piops"}
	end, ok := name[v.Type]
	if !ok {
		end = "." + v.Type
	}
	out := map[string]float64{"EBS:VolumeUsage" + end: float64(v.GiB)}
	switch v.Type {
	case "gp3":
		out["EBS:VolumeP-IOPS.gp3"] = float64(max(v.IOPS-3000, 0))
		out["EBS:VolumeP-Throughput.gp3"] = float64(max(v.MiBps-125, 0)) / 1024 // listed per GiB/s
	case "io1":
		out["EBS:VolumeP-IOPS.piops"] = float64(v.IOPS)
	case "io2":
		const first, second = 32000, 64000
		out["EBS:VolumeP-IOPS.io2"] = float64(min(v.IOPS, first))
		out["EBS:VolumeP-IOPS.io2.tier2"] = float64(min(max(v.IOPS-first, 0), second-first))
		out["EBS:VolumeP-IOPS.io2.tier3"] = float64(max(v.IOPS-second, 0))
	}
	return out
}

// addresses returns what public IPv4 addresses of an instance cost: it has them until it ends.
func (a *Account) addresses(in *Instance, from, to time.Time) float64 {
	sum := 0.0
	in.runs(in.Launched, func(begin, end time.Time) {
		begin, end = billed(begin, end, from, to)
		sum += float64(in.PublicIPv4) * a.price("PublicIPv4:InUseAddress", begin, end)
	})
	return sum
}

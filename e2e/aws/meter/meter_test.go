package meter_test

import (
	"math"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// begin is a time in November, which has 30 days: 720 hours.
func begin() time.Time { return time.Date(2026, 11, 3, 10, 0, 0, 0, time.UTC) }

func at(d time.Duration) time.Time { return begin().Add(d) }

// always is a price that does not change.
func always(usd float64) []meter.Rate { return []meter.Rate{{USD: usd}} }

// prices are those of us-east-1 (aws.amazon.com/ebs/pricing, aws.amazon.com/vpc/pricing, aws.amazon.com/ec2/pricing/on-demand, November 2026).
func prices() map[string][]meter.Rate {
	return map[string][]meter.Rate{
		"EBS:VolumeUsage.gp3": always(0.08), "EBS:VolumeP-IOPS.gp3": always(0.005), "EBS:VolumeP-Throughput.gp3": always(40.96),
		"EBS:VolumeUsage.gp2": always(0.10), "EBS:VolumeUsage.io2": always(0.125), "EBS:VolumeP-IOPS.io2": always(0.065),
		"EBS:VolumeP-IOPS.io2.tier2": always(0.0455), "EBS:VolumeP-IOPS.io2.tier3": always(0.03185),
		"PublicIPv4:InUseAddress": always(0.005), "CPUCredits:t3": always(0.05),
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: %.10f, want %.10f", what, got, want)
	}
}

// ran is an instance that runs from the beginning for a time; it was launched ten seconds before and is terminated half a minute later.
func ran(usd float64, d time.Duration) meter.Instance {
	return meter.Instance{
		ID: "i", Type: "m6i.large", Zone: "us-east-1a", Coverable: true, Rates: always(usd),
		Launched: at(-10 * time.Second), Running: at(0), Ending: at(d), Terminated: at(d + 30*time.Second),
	}
}

// Instances are billed by the second while they run, for 60 seconds at least; a spot instance at the price in effect, and not at all if EC2 takes it
// back within its first hour. m6i.large is 0.096 USD per hour.
func TestTime(t *testing.T) {
	spot := func(d time.Duration, interrupted bool) meter.Instance {
		in := ran(0, d)
		in.Spot, in.Coverable, in.Interrupted = true, false, interrupted
		in.Rates = []meter.Rate{{USD: 0.03}, {From: at(30 * time.Minute), USD: 0.04}, {From: at(90 * time.Minute), USD: 0.02}}
		return in
	}
	runs, pending, never := ran(0.096, 0), ran(0.096, 0), ran(0.096, time.Minute)
	runs.Ending, runs.Terminated = time.Time{}, time.Time{}
	pending.Running, pending.Ending, pending.Terminated = time.Time{}, time.Time{}, time.Time{}
	never.Running = time.Time{}
	stopped := ran(0.096, 2*time.Hour)
	stopped.Pauses = []meter.Pause{{From: at(15 * time.Minute), Until: at(time.Hour)}, {From: at(time.Hour + time.Second)}}
	stopped.Volumes, stopped.PublicIPv4 = []meter.Volume{{Type: "gp3", GiB: 720}}, 1
	for name, tc := range map[string]struct {
		in   meter.Instance
		want float64
	}{
		"stopped: its volumes alone, and a minute for a second": {stopped, 0.096*(900+60)/3600 + 0.005*(910+60)/3600 + 0.08*(7200+40)/3600},
		"1,001 seconds":                                  {ran(0.096, 1001*time.Second), 0.096 * 1001 / 3600},
		"one second is a minute":                         {ran(0.096, time.Second), 0.0016},
		"it still runs":                                  {runs, 0.096 * 3},
		"it is pending":                                  {pending, 0},
		"it never ran":                                   {never, 0},
		"spot, 15 minutes at the first price":            {spot(15*time.Minute, false), 0.0075},
		"spot, three prices":                             {spot(2*time.Hour, false), 0.015 + 0.04 + 0.01},
		"spot, interrupted after 59 minutes and a bit":   {spot(59*time.Minute+59*time.Second, true), 0},
		"spot, interrupted after an hour and 15 minutes": {spot(75*time.Minute, true), 0.015 + 0.03},
		"spot, ended by its user after 15 minutes":       {spot(15*time.Minute, false), 0.0075},
	} {
		t.Run(name, func(t *testing.T) {
			a := meter.Account{Instances: []meter.Instance{tc.in}, Prices: prices()}
			near(t, "bill", a.Bill(at(-time.Hour), at(3*time.Hour)).Total(), tc.want)
		})
	}
}

// Volumes are billed from the launch until the instance is terminated. AWS's own example: 2,000 GB of gp3 for 43,200 seconds of a month of 30 days are
// 0.08 × 2000 × 43,200 / (86,400 × 30) = 2.6667 USD; of gp2 3.3333 USD (aws.amazon.com/ebs/pricing, November 2026). gp3 includes 3,000 IOPS and 125 MiB/s.
func TestVolumes(t *testing.T) {
	half := 12 * time.Hour
	for name, tc := range map[string]struct {
		v    meter.Volume
		d    time.Duration
		want float64
	}{
		"AWS's example, gp3":            {meter.Volume{Type: "gp3", GiB: 2000}, half, 0.08 * 2000 * 43200 / (86400 * 30)},
		"AWS's example, gp2":            {meter.Volume{Type: "gp2", GiB: 2000}, half, 0.10 * 2000 * 43200 / (86400 * 30)},
		"gp3 with what is free":         {meter.Volume{Type: "gp3", GiB: 20, IOPS: 3000, MiBps: 125}, half, 0.08 * 20 / 60},
		"gp3 with IOPS and throughput":  {meter.Volume{Type: "gp3", GiB: 100, IOPS: 6000, MiBps: 250}, half, (8 + 3000*0.005 + 125*0.04) / 60},
		"io2 in all three tiers":        {meter.Volume{Type: "io2", GiB: 100, IOPS: 70000}, half, (12.5 + 32000*0.065 + 32000*0.0455 + 6000*0.03185) / 60},
		"20 seconds are a minute":       {meter.Volume{Type: "gp3", GiB: 720 * 60}, 20 * time.Second, 0.08},
		"it outlives the instance":      {meter.Volume{Type: "gp3", GiB: 720, Kept: true}, time.Hour, 0.08 * 24},
		"to December, of 31 days":       {meter.Volume{Type: "gp3", GiB: 720 * 31}, 28 * 24 * time.Hour, 0.08*(27*24+14)*31 + 0.08*10*30},
		"no volume of another instance": {meter.Volume{}, half, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := ran(0, 0)
			in.Launched, in.Ending, in.Terminated, in.Volumes = at(0), at(tc.d), at(tc.d), []meter.Volume{tc.v}
			a := meter.Account{Instances: []meter.Instance{in}, Prices: prices()}
			to := at(max(24*time.Hour, tc.d))
			near(t, "bill", a.Bill(at(0), to).Sum().Volumes, tc.want)
		})
	}
}

// A public IPv4 address costs 0.005 USD per hour from the launch until the instance ends.
func TestPublicIPv4(t *testing.T) {
	in := ran(0, time.Hour)
	in.PublicIPv4 = 1
	a := meter.Account{Instances: []meter.Instance{in}, Prices: prices()}
	near(t, "bill", a.Bill(at(-time.Hour), at(3*time.Hour)).Total(), 0.005*3610/3600)
}

// A price that changes is that of the time.
func TestPriceChanges(t *testing.T) {
	in := ran(0, 0)
	in.Launched, in.Ending, in.Terminated, in.Volumes = at(0), at(2*time.Hour), at(2*time.Hour), []meter.Volume{{Type: "gp3", GiB: 720}}
	a := meter.Account{Instances: []meter.Instance{in}, Prices: map[string][]meter.Rate{"EBS:VolumeUsage.gp3": {{USD: 0.08}, {From: at(time.Hour), USD: 0.16}}}}
	near(t, "bill", a.Bill(at(0), at(3*time.Hour)).Total(), 0.24)
}

// The hours of a bill add up, however it is divided.
func TestPartsOfABill(t *testing.T) {
	in := ran(0.096, 150*time.Minute)
	in.Volumes, in.PublicIPv4 = []meter.Volume{{Type: "gp3", GiB: 20}}, 1
	a := meter.Account{Instances: []meter.Instance{in}, Prices: prices()}
	sum := 0.0
	for h := -1; h < 4; h++ {
		sum += a.Bill(at(time.Duration(h)*time.Hour), at(time.Duration(h+1)*time.Hour)).Total()
	}
	near(t, "sum of hours", sum, a.Bill(at(-time.Hour), at(4*time.Hour)).Total())
}

// In each clock hour in which at least one dedicated instance runs, the region costs 2 USD more, however many they are and however short they run.
func TestFeeOfDedicatedInstances(t *testing.T) {
	dedicated := func(begin, d time.Duration) meter.Instance {
		in := ran(0.102, d)
		in.Dedicated, in.Coverable = true, false
		in.Launched, in.Running, in.Ending, in.Terminated = at(begin), at(begin), at(begin+d), at(begin+d)
		return in
	}
	for name, tc := range map[string]struct {
		instances []meter.Instance
		hours     float64
	}{
		"none":                        {[]meter.Instance{ran(0.096, time.Hour)}, 0},
		"one for a minute":            {[]meter.Instance{dedicated(0, time.Minute)}, 1},
		"two in the same hour":        {[]meter.Instance{dedicated(0, time.Minute), dedicated(30*time.Minute, time.Minute)}, 1},
		"one over the hour":           {[]meter.Instance{dedicated(50*time.Minute, 20*time.Minute)}, 2},
		"two with an hour between":    {[]meter.Instance{dedicated(0, time.Minute), dedicated(2*time.Hour, time.Minute)}, 2},
		"beside one that is not so":   {[]meter.Instance{ran(0.096, 3*time.Hour), dedicated(0, time.Minute)}, 1},
		"three hours without a break": {[]meter.Instance{dedicated(0, 3*time.Hour)}, 3},
	} {
		a := meter.Account{Instances: tc.instances, Prices: prices()}
		bill := a.Bill(at(0), at(4*time.Hour))
		near(t, name, bill.Fees, 2*tc.hours)
		near(t, name+", total", bill.Total(), bill.Sum().Total()+2*tc.hours)
	}
}

package meter_test

import (
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// A t3.nano earns 6 credits per hour, 144 in 24 hours, and its baseline is 5% of 2 vCPUs (EC2 User Guide, "Unlimited mode examples", T3 example,
// November 2026). Loads are vCPUs: 7% of the CPU of the example is 0.14, which is 8.4 credits per hour.
func TestCredits(t *testing.T) {
	day := 24 * time.Hour
	// The example: a day idle, 12 hours at 2.5%, a day at 7%, which spends 57.6 credits of the 144, 12 hours at the baseline, and on at 7%.
	example := []meter.Load{{From: at(day), VCPUs: 0.05}, {From: at(day + 12*time.Hour), VCPUs: 0.14}, {From: at(2*day + 12*time.Hour), VCPUs: 0.10}, {From: at(3 * day), VCPUs: 0.14}}
	for name, tc := range map[string]struct {
		cpu      []meter.Load
		end, to  time.Duration
		credits  float64
		instance string
	}{
		"the balance pays":                             {example, 0, 3 * day, 0, "t3.nano"},
		"86.4 credits last for 36 hours at 7%":         {example, 3*day + 36*time.Hour, 5 * day, 0, "t3.nano"},
		"ten hours more are 24 credits":                {example, 3*day + 46*time.Hour, 6 * day, 24, "t3.nano"},
		"surplus of 24 hours is not charged yet":       {example, 0, 3*day + 46*time.Hour, 0, "t3.nano"},
		"at the baseline nothing is charged":           {[]meter.Load{{VCPUs: 0.1}}, 2 * day, 3 * day, 0, "t3.nano"},
		"100% for three hours: 342 credits":            {[]meter.Load{{VCPUs: 2}}, 3 * time.Hour, day, 342, "t3.nano"},
		"while it runs, those beyond 144 by the hour":  {[]meter.Load{{VCPUs: 2}}, 0, 3*time.Hour + 59*time.Minute, 198, "t3.nano"},
		"what was earned since pays first":             {[]meter.Load{{VCPUs: 2}, {From: at(time.Hour), VCPUs: 0}}, 11 * time.Hour, day, 54, "t3.nano"},
		"T2 is in standard mode":                       {[]meter.Load{{VCPUs: 1}}, 3 * time.Hour, day, 0, "t2.nano"},
		"other families have no credits":               {[]meter.Load{{VCPUs: 2}}, 3 * time.Hour, day, 0, "m6i.large"},
		"an idle instance":                             {nil, 3 * time.Hour, day, 0, "t3.nano"},
		"a t3.xlarge earns 96: 240 - 96 for one hour":  {[]meter.Load{{VCPUs: 4}}, time.Hour, day, 144, "t3.xlarge"},
		"a t3.medium earns 24: 120 - 24 for half each": {[]meter.Load{{VCPUs: 2}, {From: at(30 * time.Minute), VCPUs: 0}}, time.Hour, day, 36, "t3.medium"},
	} {
		t.Run(name, func(t *testing.T) {
			in := ran(0, tc.end)
			in.Type, in.CPU = tc.instance, tc.cpu
			if tc.end == 0 {
				in.Ending, in.Terminated = time.Time{}, time.Time{}
			}
			a := meter.Account{Instances: []meter.Instance{in}, Prices: prices()}
			near(t, "USD", a.Bill(at(0), at(tc.to)).Sum().Credits, tc.credits/60*0.05)
		})
	}
}

package meter_test

import (
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// of is an instance of a type that runs for a time from an hour's beginning on.
func of(id, instanceType string, usd float64, d time.Duration) meter.Instance {
	return meter.Instance{
		ID: id, Type: instanceType, Zone: "us-east-1a", Coverable: true, Rates: always(usd),
		Launched: at(0), Running: at(0), Ending: at(d), Terminated: at(d),
	}
}

// Commitments are applied in AWS's order, for each clock hour.
func TestCommitments(t *testing.T) {
	hour := time.Hour
	zonal := meter.Reserved{ID: "zonal", Type: "m5.large", Zone: "us-east-1a", Count: 1, Hourly: 0.06}
	region := meter.Reserved{ID: "region", Type: "m5.xlarge", Count: 1, Hourly: 0.12}
	family := meter.SavingsPlan{ID: "family", Family: "m5", USDPerHour: 0.07, Rates: map[string]float64{"m5.large": 0.07, "m5.xlarge": 0.14}}
	compute := meter.SavingsPlan{ID: "compute", USDPerHour: 0.15, Rates: map[string]float64{"m5.large": 0.08, "c5.large": 0.06, "r5.large": 0.10}}
	windows := of("windows", "m5.large", 0.096, hour)
	windows.Coverable = false
	other := of("b", "m5.large", 0.096, hour)
	other.Zone = "us-east-1b"
	for name, tc := range map[string]struct {
		instances []meter.Instance
		plans     []meter.SavingsPlan
		reserved  []meter.Reserved
		total     float64
		used      []float64
	}{
		// 3,600 seconds per clock-hour: two instances for half an hour each, beside each other, are one reserved hour.
		"two halves of an hour": {
			[]meter.Instance{of("1", "m5.large", 0.096, hour/2), of("2", "m5.large", 0.096, hour/2)}, nil, []meter.Reserved{zonal}, 0.06, []float64{1},
		},
		// The second hour has none left: AWS's example of three instances in one hour is one reserved hour and two on demand.
		"three instances in one hour": {
			[]meter.Instance{of("1", "m5.large", 0.096, hour), of("2", "m5.large", 0.096, hour), of("3", "m5.large", 0.096, hour)},
			nil,
			[]meter.Reserved{zonal},
			0.06 + 2*0.096,
			[]float64{1},
		},
		"not in another zone":       {[]meter.Instance{other}, nil, []meter.Reserved{zonal}, 0.06 + 0.096, []float64{0}},
		"nor for what is no Linux":  {[]meter.Instance{windows}, nil, []meter.Reserved{zonal}, 0.06 + 0.096, []float64{0}},
		"half an hour is half used": {[]meter.Instance{of("1", "m5.large", 0.096, hour/2)}, nil, []meter.Reserved{zonal}, 0.06, []float64{0.5}},
		// An m5.xlarge is 8 units: a large (4) first, then half of the 2xlarge's 16 units is paid by 4: a quarter of 0.384.
		"sizes of the family, smallest first": {
			[]meter.Instance{of("1", "m5.2xlarge", 0.384, hour), of("2", "m5.large", 0.096, hour)}, nil, []meter.Reserved{region}, 0.12 + 0.384*0.75, []float64{1},
		},
		"zonal before regional": {
			[]meter.Instance{of("1", "m5.large", 0.096, hour), of("2", "m5.large", 0.096, hour), of("3", "m5.large", 0.096, hour)},
			nil,
			[]meter.Reserved{region, zonal},
			0.12 + 0.06,
			[]float64{1, 1},
		},
		// Reserved Instances, then the plan of the family, then the compute plan: 0.08 of its 0.15 USD pay for the third, 0.07/0.10 of the r5.large
		// (0.126 on demand), which saves the smaller share (20.6%), follow the c5.large (29.4%), which costs 0.06.
		"all of them": {
			[]meter.Instance{
				of("1", "m5.large", 0.096, hour), of("2", "m5.large", 0.096, hour), of("3", "r5.large", 0.126, hour), of("4", "c5.large", 0.085, hour),
			},
			[]meter.SavingsPlan{compute, family},
			[]meter.Reserved{zonal},
			0.15 + 0.07 + 0.06 + 0.126*(1-0.09/0.10),
			[]float64{1, 1, 1},
		},
		// Equal shares: the lowest rate first.
		"equal savings": {
			[]meter.Instance{of("1", "m5.xlarge", 0.2, hour), of("2", "m5.large", 0.1, hour)},
			[]meter.SavingsPlan{{ID: "p", USDPerHour: 0.14, Rates: map[string]float64{"m5.xlarge": 0.14, "m5.large": 0.07}}},
			nil, 0.14 + 0.1,
			[]float64{1},
		},
		"no rate, no benefit": {[]meter.Instance{of("1", "x8g.large", 0.2, hour)}, []meter.SavingsPlan{compute}, nil, 0.15 + 0.2, []float64{0}},
		// A plan's hour pays for what ran in that hour, whenever: two instances in its first half.
		"a busy half of an hour": {
			[]meter.Instance{of("1", "m5.large", 0.096, hour/2), of("2", "m5.large", 0.096, hour/2)}, []meter.SavingsPlan{family}, nil, 0.07, []float64{1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := meter.Account{Instances: tc.instances, Plans: tc.plans, Reserved: tc.reserved, Prices: prices()}
			bill := a.Bill(at(0), at(hour))
			near(t, "bill", bill.Total(), tc.total)
			for i, u := range bill.Commitments {
				near(t, u.ID, u.Used, tc.used[i])
			}
		})
	}
}

// What is paid upfront is divided by the hours of the term, and nothing is paid after the end: 876 USD for a year of 8,760 hours are 0.10 per hour.
func TestUpfrontAndEnd(t *testing.T) {
	r := meter.Reserved{ID: "r", Type: "m5.large", Count: 2, Upfront: 876, Hourly: 0.01, Start: at(2*time.Hour - 8760*time.Hour), End: at(2 * time.Hour)}
	a := meter.Account{Instances: []meter.Instance{of("1", "m5.large", 0.096, 4*time.Hour)}, Reserved: []meter.Reserved{r}, Prices: prices()}
	bill := a.Bill(at(0), at(4*time.Hour))
	near(t, "committed", bill.Committed(), 2*2*0.11)
	near(t, "bill", bill.Total(), 0.44+2*0.096)
	near(t, "used", bill.Commitments[0].Used, 0.5)
	near(t, "covered", bill.Sum().Covered, 2*0.096)
}

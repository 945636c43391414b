package commitment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// The factors are those of the table in the EC2 User Guide.
func TestUnits(t *testing.T) {
	for name, want := range map[string]float64{
		"t3.nano": 0.25, "t3.micro": 0.5, "t3.small": 1, "m5.medium": 2, "m5.large": 4, "m5.xlarge": 8, "m5.2xlarge": 16, "m5.12xlarge": 96,
		"m5.24xlarge": 192, "m7i.48xlarge": 384, "m5.metal": 0, "m7g.metal-24xl": 0, "m5": 0, "": 0,
	} {
		if got := units(name); got != want {
			t.Errorf("%q has %v normalized units, want %v", name, got, want)
		}
	}
}

func TestDraw(t *testing.T) {
	region := Commitment{Kind: ReservedInstances, InstanceType: "m5.xlarge", Count: 2, Share: 1}
	zonal := Commitment{Kind: ReservedInstances, InstanceType: "m5.xlarge", Count: 2, Zone: "a", Share: 1}
	metal := Commitment{Kind: ReservedInstances, InstanceType: "m5.metal", Count: 2, Share: 1}
	gpu := Commitment{Kind: ReservedInstances, InstanceType: "g5.xlarge", Count: 2, Share: 1}
	family := Commitment{Kind: EC2InstanceSavingsPlan, Family: "m5", USDPerHour: 1, Discount: 0.4, Share: 0.5}
	compute := Commitment{Kind: ComputeSavingsPlan, USDPerHour: 1, Rates: map[string]float64{"m5.large": 0.07}, Share: 1}
	for _, tc := range []struct {
		what           string
		c              Commitment
		amount         float64
		instance, zone string
		want           float64
	}{
		{"the same type", region, 16, "m5.xlarge", "b", 8},
		{"a smaller size", region, 16, "m5.large", "b", 4},
		{"another family", region, 16, "m5a.large", "b", 0},
		{"bare metal of the family", region, 16, "m5.metal", "b", 0},
		{"the zone's", zonal, 2, "m5.xlarge", "a", 1},
		{"another zone's", zonal, 2, "m5.xlarge", "b", 0},
		{"a smaller size in the zone", zonal, 2, "m5.large", "a", 0},
		{"bare metal", metal, 2, "m5.metal", "a", 1},
		{"a type for bare metal", metal, 2, "m5.large", "a", 0},
		{"a family without size flexibility", gpu, 2, "g5.xlarge", "a", 1},
		{"another size of it", gpu, 2, "g5.2xlarge", "a", 0},
		{"the plan's family", family, 0.5, "m5.large", "a", 0.06},
		{"not the plan's family", family, 0.5, "m6i.large", "a", 0},
		{"a type with a rate", compute, 1, "m5.large", "a", 0.07},
		{"a type without", compute, 1, "c5.large", "a", 0},
		{"no kind", Commitment{}, 0, "m5.large", "a", 0},
	} {
		got, ok := tc.c.Draw(tc.instance, tc.zone, 0.1)
		if !near(got, tc.want) || ok != (tc.want > 0) || !near(tc.c.Amount(), tc.amount) {
			t.Errorf("%s: draws %v, %v of %v; want %v of %v", tc.what, got, ok, tc.c.Amount(), tc.want, tc.amount)
		}
	}
}

func uses(list ...string) []Use {
	var out []Use
	for i, text := range list {
		u := Use{Name: fmt.Sprintf("n%d", i)}
		if _, err := fmt.Sscanf(text, "%s %s %f", &u.InstanceType, &u.Zone, &u.OnDemand); err != nil {
			panic(err)
		}
		out = append(out, u)
	}
	return out
}

// Commitments pay in AWS's order, and each until it is used up.
func TestApply(t *testing.T) {
	zonal := Commitment{ID: "z", Kind: ReservedInstances, InstanceType: "m5.large", Count: 1, Zone: "a", Share: 1}
	region := Commitment{ID: "r", Kind: ReservedInstances, InstanceType: "m5.xlarge", Count: 1, Share: 1}
	family := Commitment{ID: "f", Kind: EC2InstanceSavingsPlan, Family: "m5", USDPerHour: 0.09, Discount: 0.4, Share: 1}
	compute := Commitment{ID: "c", Kind: ComputeSavingsPlan, USDPerHour: 0.1, Rates: map[string]float64{"m5.large": 0.07, "c5.large": 0.04}, Share: 1}
	for _, tc := range []struct {
		what        string
		commitments []Commitment
		uses        []Use
		covered     []float64
		left        []float64
	}{
		{"a zone's before a region's", []Commitment{region, zonal}, uses("m5.large a 0.1", "m5.large b 0.1"), []float64{1, 1}, []float64{4, 0}},
		{"the smallest nodes first", []Commitment{region}, uses("m5.2xlarge a 0.4", "m5.large a 0.1"), []float64{0.25, 1}, []float64{0}},
		{"a plan of the family first", []Commitment{compute, family}, uses("m5.large a 0.1", "m5.large a 0.1"), []float64{1, 1}, []float64{0.1 - 0.035, 0}},
		{"the largest saving first", []Commitment{compute}, uses("m5.large a 0.1", "c5.large a 0.085"), []float64{0.06 / 0.07, 1}, []float64{0}},
		{"nothing to pay for", []Commitment{family}, uses("c5.large a 0.085"), []float64{0}, []float64{0.09}},
		{"no share", []Commitment{{ID: "s", Kind: ComputeSavingsPlan, USDPerHour: 1, Discount: 0.3}}, uses("m5.large a 0.1"), []float64{0}, []float64{0}},
	} {
		got := Apply(tc.commitments, tc.uses)
		for i, want := range tc.covered {
			if share := got.Covered[tc.uses[i].Name]; !near(share, want) {
				t.Errorf("%s: %v of %+v is covered, want %v", tc.what, share, tc.uses[i], want)
			}
		}
		for i, want := range tc.left {
			if !near(got.Left[i], want) {
				t.Errorf("%s: %v left of %s, want %v", tc.what, got.Left[i], tc.commitments[i].ID, want)
			}
		}
	}
}

// What commitments pay is what is drawn from them, whatever the nodes; and nothing is left of one that could still pay for a node.
func TestApplyIsComplete(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	types := []string{"m5.large", "m5.xlarge", "m5.4xlarge", "c5.large", "c5.2xlarge", "m5.metal"}
	for range 200 {
		var commitments []Commitment
		for i := range rng.IntN(5) {
			c := Commitment{ID: fmt.Sprint(i), Share: rng.Float64(), Kind: []Kind{ReservedInstances, EC2InstanceSavingsPlan, ComputeSavingsPlan}[rng.IntN(3)]}
			switch c.Kind {
			case ReservedInstances:
				c.InstanceType, c.Count, c.Zone = types[rng.IntN(len(types))], 1+rng.IntN(5), []string{"", "a"}[rng.IntN(2)]
			default:
				c.USDPerHour, c.Discount = rng.Float64()*3, 0.2+rng.Float64()/2
			}
			if c.Kind == EC2InstanceSavingsPlan {
				c.Family = "m5"
			}
			commitments = append(commitments, c)
		}
		var list []Use
		for i := range rng.IntN(30) {
			name := types[rng.IntN(len(types))]
			list = append(list, Use{Name: fmt.Sprint(i), InstanceType: name, Zone: []string{"a", "b"}[rng.IntN(2)], OnDemand: 0.02 * max(units(name), 100)})
		}
		got := Apply(commitments, list)
		for i := range commitments {
			c := &commitments[i]
			if got.Left[i] < 0 || got.Left[i] > c.Amount()+1e-9 {
				t.Fatalf("%v left of %v", got.Left[i], c.Amount())
			}
			for _, u := range list {
				if _, ok := c.Draw(u.InstanceType, u.Zone, u.OnDemand); ok && got.Left[i] > 1e-9 && got.Covered[u.Name] < 1-1e-9 {
					t.Fatalf("%v is left of %+v, and %+v is covered by %v", got.Left[i], *c, u, got.Covered[u.Name])
				}
			}
		}
	}
}

func TestFits(t *testing.T) {
	c := Commitment{Kind: ComputeSavingsPlan, USDPerHour: 0.3, Discount: 0.4, Share: 1}
	for left, want := range map[float64]int{0.3: 5, 0.1: 1, 0.05: 0, 0: 0} {
		if got := c.Fits(left, "m5.large", "a", 0.1); got != want {
			t.Errorf("%v left fits %d nodes, want %d", left, got, want)
		}
	}
}

const file = `
- {id: sp, kind: ComputeSavingsPlan, usdPerHour: 10, discountPercent: 28, sharePercent: 40, end: 2027-03-01T00:00:00Z}
- {id: m5, kind: EC2InstanceSavingsPlan, usdPerHour: 2, family: m5, rates: {m5.large: 0.06}}
- {id: ri, kind: ReservedInstances, instanceType: m5.large, count: 3, zone: us-east-1a, usdPerHour: 0.06, sharePercent: 50}
`

func TestParse(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	got, faults, err := Parse([]byte(file), now)
	if err != nil || len(faults) != 0 || len(got) != 3 || got[0].Amount() != 4 || got[1].Rates["m5.large"] != 0.06 || got[2].Zone != "us-east-1a" || got[0].Cost() != 4 || math.Abs(got[2].Cost()-0.09) > 1e-12 {
		t.Fatalf("%+v, %+v, %v", got, faults, err)
	}
	_, faults, err = Parse([]byte(file), now.AddDate(1, 0, 0))
	if err != nil || len(faults) != 1 || faults[0].Entry != "sp" || !strings.Contains(faults[0].Message, "it ended at 2027-03-01T00:00:00Z") {
		t.Errorf("a year later: %+v, %v", faults, err)
	}
}

func TestParseNoList(t *testing.T) {
	if got, faults, err := Parse(nil, time.Now()); err != nil || len(got)+len(faults) != 0 {
		t.Errorf("nothing: %+v, %+v, %v", got, faults, err)
	}
	for _, text := range []string{"{", "sp: 10", "3", "- {id: a}\n- {id: ", "- &a [*a]", strings.Repeat("- {id: a}\n", maxEntries+1)} {
		if _, _, err := Parse([]byte(text), time.Now()); err == nil || !strings.HasPrefix(err.Error(), "reading commitments: ") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// A mistake is reported with its field, also where it is no number or no entry; the other entries count.
func TestMistakesAreLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"{kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 20}":                           "id: ",
		"{id: a, kind: Saving, usdPerHour: 1}":                                                     "kind: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: -1, discountPercent: 20}":                   "usdPerHour: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: much, discountPercent: 20}":                 "usdPerHour",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1}":                                         "discountPercent: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 100}":                   "discountPercent: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, rates: {m5.large: -1}}":                  "rates[m5.large]: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 20, family: m5}":        "family: ",
		"{id: a, kind: EC2InstanceSavingsPlan, usdPerHour: 1, discountPercent: 20}":                "family: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 20, zone: us-east-1a}":  "instanceType, count and zone",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 20, sharePercent: 101}": "sharePercent: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 20, end: next year}":    "end: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 20, usdPerDay: 24}":     "usdPerDay",
		"{id: a, kind: ReservedInstances, instanceType: m5, count: 1}":                             "instanceType: ",
		"{id: a, kind: ReservedInstances, instanceType: m5.large}":                                 "count: ",
		"{id: a, kind: ReservedInstances, instanceType: m5.large, count: 1, usdPerHour: -2}":       "usdPerHour: ",
		"{id: a, kind: ReservedInstances, instanceType: m5.large, count: 1, usdPerHour: much}":     "usdPerHour",
		"{id: a, kind: ReservedInstances, instanceType: m5.large, count: 1, discountPercent: 2}":   "discountPercent, rates and family",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: .nan, discountPercent: 20}":                 "usdPerHour: a number is expected, got NaN",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: -.inf, discountPercent: 20}":                "usdPerHour: a number is expected, got -Inf",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1e400, discountPercent: 20}":                "usdPerHour: a number is expected, got string",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1e300, discountPercent: 20}":                "usdPerHour: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, rates: {m5.large: .nan}}":                "rates.m5.large: a number is expected, got NaN",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, rates: 3}":                               "rates: a map of numbers is expected, got number",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: .nan}":                  "discountPercent: ",
		"{id: a, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 20, sharePercent: -1}":  "sharePercent: ",
		"{id: a, kind: ReservedInstances, instanceType: m5.large, count: 99999999999999999999}":    "count: a whole number is expected, got number",
		"{id: a, id: b, kind: ReservedInstances, instanceType: m5.large, count: 1}":                "already defined",
		"3":    "an entry with fields is expected",
		"[a]":  "an entry with fields is expected",
		"null": "id: ",
		"{id: good, kind: ComputeSavingsPlan, usdPerHour: 1, discountPercent: 20}": "id: ",
	} {
		list := "- " + text + "\n"
		if good := "- {id: good, kind: ReservedInstances, instanceType: m5.large, count: 1}\n"; strings.Contains(text, "id: good") {
			list = good + list
		} else {
			list += good
		}
		got, faults, err := Parse([]byte(list), time.Now())
		if err != nil || len(got) != 1 || got[0].ID != "good" || len(faults) != 1 || !strings.Contains(faults[0].Message, want) {
			t.Errorf("%s: %+v, %+v, %v; want %q", text, got, faults, err, want)
		}
	}
}

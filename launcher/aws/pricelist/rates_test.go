package pricelist

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// listed is a product of the price list.
func listed(attributes map[string]string, unit string, prices ...string) string {
	dimensions := map[string]any{}
	for i, p := range prices {
		dimensions[fmt.Sprintf("A.B.%d", i)] = map[string]any{"unit": unit, "pricePerUnit": map[string]string{"USD": p}}
	}
	text, err := json.Marshal(map[string]any{
		"product": map[string]any{"attributes": attributes},
		"terms":   map[string]any{"OnDemand": map[string]any{"A.B": map[string]any{"priceDimensions": dimensions}}},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func usageOf(usage, unit string, prices ...string) string {
	return listed(map[string]string{"usagetype": usage}, unit, prices...)
}

func parsed(t *testing.T, text string) product {
	t.Helper()
	var p product
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProductPrice(t *testing.T) {
	for name, tc := range map[string]struct {
		prices []string
		want   float64
		fault  string
	}{
		"one":             {[]string{"0.0816000000"}, 0.0816, ""},
		"first part free": {[]string{"0", "0.005"}, 0.005, ""},
		"free":            {[]string{"0.0000000000"}, 0, ""},
		"negative":        {[]string{"-0.08"}, 0, `price "-0.08"`},
		"no number":       {[]string{"eight cents"}, 0, `price "eight cents"`},
		"infinite":        {[]string{"Inf"}, 0, `price "Inf"`},
		"none":            {nil, 0, ""},
	} {
		got, _, err := parsed(t, usageOf("EBS:VolumeUsage.gp3", "GB-Mo", tc.prices...)).price("USD")
		if got != tc.want || (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %v, %v; want %v, %q", name, got, err, tc.want, tc.fault)
		}
	}
	if _, _, err := parsed(t, usageOf("EBS:VolumeUsage.gp3", "GB-Mo", "1")).price("CNY"); err == nil || !strings.Contains(err.Error(), "CNY") {
		t.Errorf("a price in another currency: %v", err)
	}
}

// Each price of the sheet is set by its usage type, with the prefix of a region or none.
func TestRateSheet(t *testing.T) {
	sheet := newRateSheet()
	if len(catalog.UsageTypes()) != 7+5+1+1+3 {
		t.Errorf("the sheet has %d prices: %v", len(catalog.UsageTypes()), catalog.UsageTypes())
	}
	for i, usage := range catalog.UsageTypes() {
		prefix, unit := "", "any"
		if i%2 == 0 {
			prefix = "EUC1-"
		}
		if usage == "EBS:VolumeP-Throughput.gp3" {
			unit = "GiBps-mo"
		}
		sheet.read(parsed(t, usageOf(prefix+usage, unit, fmt.Sprint(1024*(i+1)))), "USD")
	}
	got, left := sheet.Done()
	if len(left) != 0 || len(sheet.faults) != 0 {
		t.Errorf("left %v, faults %v", left, sheet.faults)
	}
	want := &catalog.Rates{
		Volumes: map[string]catalog.VolumeRate{
			"gp3": {GiB: 12, IOPS: 4, MiBps: 9.0 / 1024, FreeIOPS: 3000, FreeMiBps: 125}, "gp2": {GiB: 11}, "io1": {GiB: 14, IOPS: 8},
			"io2": {GiB: 13, IOPS: 5, Tiers: [2]float64{6, 7}}, "st1": {GiB: 16}, "sc1": {GiB: 15}, "standard": {GiB: 10},
		},
		PublicIPv4: 17, SurplusCPU: map[string]float64{"t3": 1, "t3a": 2, "t4g": 3},
	}
	for name, v := range want.Volumes {
		v.GiB, v.IOPS, v.MiBps, v.Tiers = v.GiB*1024, v.IOPS*1024, v.MiBps*1024, [2]float64{v.Tiers[0] * 1024, v.Tiers[1] * 1024}
		want.Volumes[name] = v
	}
	want.PublicIPv4 *= 1024
	for family := range want.SurplusCPU {
		want.SurplusCPU[family] *= 1024
	}
	if !got.Equal(want) {
		t.Errorf("rates %+v, want %+v", got, want)
	}
	if len(want.Volumes) != len(catalog.BuiltinRates().Volumes) {
		t.Error("a volume type has no usage type")
	}
}

// What is not about the region's nodes changes nothing, and an unusable price is a fault.
func TestRateSheetLeavesOut(t *testing.T) {
	sheet := newRateSheet()
	for _, p := range []string{
		usageOf("EBS:SnapshotUsage", "GB-Mo", "9"), usageOf("EBS:VolumeIOUsage", "IOs", "9"), usageOf("PublicIPv4:IdleAddress", "Hrs", "9"),
		usageOf("CPUCredits:t2", "vCPU-Hours", "9"), usageOf("EBS:VolumeUsage.gp3", "GB-Mo", "0"), usageOf("EBS:VolumeUsage.gp2", "GB-Mo", "-1"),
		listed(map[string]string{"usagetype": "USE1-BOS1-EBS:VolumeUsage.gp3", "locationType": "AWS Local Zone"}, "GB-Mo", "9"),
	} {
		sheet.read(parsed(t, p), "USD")
	}
	got, _ := sheet.Done()
	if !got.Equal(catalog.BuiltinRates()) || len(sheet.faults) != 1 || !strings.HasPrefix(sheet.faults[0], "EBS:VolumeUsage.gp2: price \"-1\"") {
		t.Errorf("rates %+v, faults %q", got, sheet.faults)
	}
}

func TestRateQueries(t *testing.T) {
	services := map[string]int{}
	for _, q := range rateQueries("eu-west-1") {
		services[q.service]++
		if !slices.ContainsFunc(q.filters, func(f pricingtypes.Filter) bool { return *f.Field == "regionCode" && *f.Value == "eu-west-1" }) {
			t.Errorf("%+v does not name the region", q)
		}
	}
	if !maps.Equal(services, map[string]int{"AmazonVPC": 1, "AmazonEC2": 8}) {
		t.Errorf("queries %v", services)
	}
}

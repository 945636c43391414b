package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// TestVolumeCharges compares with the AWS Pricing Calculator, us-east-1.
func TestVolumeCharges(t *testing.T) {
	gib := int64(1 << 30)
	for name, tc := range map[string]struct {
		class NodeClass
		month float64
	}{
		"AL2023's own":       {NodeClass{AMIFamily: FamilyAL2023}, 1.6},
		"Bottlerocket's":     {NodeClass{AMIFamily: FamilyBottlerocket}, 1.92},
		"a custom AMI's":     {NodeClass{AMIFamily: FamilyCustom}, 0},
		"gp3":                {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: 100 * gib, Type: "gp3", IOPS: 6000, MiBps: 250}}}, 8 + 15 + 5},
		"gp3 without type":   {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: 100 * gib, IOPS: 3000, MiBps: 125}}}, 8},
		"io2":                {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: 100 * gib, Type: "io2", IOPS: 1000}}}, 12.5 + 65},
		"io2 of two tiers":   {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: 100 * gib, Type: "io2", IOPS: 40000}}}, 12.5 + 32000*0.065 + 8000*0.0455},
		"io2 of three tiers": {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: 100 * gib, Type: "io2", IOPS: 100000}}}, 12.5 + 32000*0.065 + 32000*0.0455 + 36000*0.03185},
		"io1 has none":       {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: 100 * gib, Type: "io1", IOPS: 64000}}}, 12.5 + 64000*0.065},
		"gp3 of 80000 IOPS":  {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: 100 * gib, Type: "gp3", IOPS: 80000}}}, 8 + 77000*0.005},
		"two":                {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: 10 * gib, Type: "gp2"}, {SizeBytes: 500 * gib, Type: "st1"}}}, 1 + 22.5},
		"a part of a GiB":    {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: gib + 1, Type: "gp2"}}}, 0.2},
		"an unknown type":    {NodeClass{BlockDevices: []BlockDevice{{SizeBytes: gib, Type: "gp9"}}}, 0},
	} {
		if got := charges(Facts{Name: "m7g.large"}, tc.class); !near(got.Volumes, Micro(tc.month/730)) || got.PublicIPv4 != 0 || got.BaselineCPU != 0 {
			t.Errorf("%s: %+v, want %v USD per month", name, got, tc.month)
		}
	}
}

func TestCharges(t *testing.T) {
	got := charges(Facts{Name: "t3.medium", Burstable: true, VCPUs: 2}, NodeClass{AMIFamily: FamilyCustom, PublicIPv4: true})
	if want := (Charges{PublicIPv4: 0.005, BaselineCPU: 400, SurplusCPU: 0.05}); got != want {
		t.Errorf("t3.medium: %+v, want %+v", got, want)
	}
	if b := got.Burst(1400); !near(b, 0.05) || got.Burst(400) != 0 {
		t.Errorf("1.4 CPUs cost %v more", b)
	}
	// T2 launches in standard mode: it is throttled, not charged.
	if got := charges(Facts{Name: "t2.medium", Burstable: true, VCPUs: 2}, NodeClass{AMIFamily: FamilyCustom}); got != (Charges{}) {
		t.Errorf("t2.medium: %+v", got)
	}
	rates := &Rates{Volumes: map[string]VolumeRate{"gp3": {GiB: 0.1}}, PublicIPv4: 0.007}
	if got := charges(Facts{}, NodeClass{AMIFamily: FamilyAL2023, PublicIPv4: true, Rates: rates}); !near(got.Fixed(), Micro(2.0/730)+0.007) {
		t.Errorf("with a region's own rates: %+v", got)
	}
}

func TestNodeCost(t *testing.T) {
	for text, want := range map[string]float64{"0.02": 0.02, " 1 ": 1, "0": 0} {
		if got, err := NodeCost(map[string]string{NodeCostAnnotation: text}); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"-1", "", "NaN", "1e9", "0.02 USD"} {
		if got, err := NodeCost(map[string]string{NodeCostAnnotation: text}); err == nil || got != 0 || !strings.Contains(err.Error(), "USD per hour") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := NodeCost(nil); got != 0 || err != nil {
		t.Errorf("without the annotation: %v, %v", got, err)
	}
}

func TestDeclaredCost(t *testing.T) {
	for text, want := range map[string]float64{"40": 0.6, " 40% ": 0.6, "100": 0, "0": 1} {
		got, err := DeclaredCost(map[string]string{NodeCostAnnotation: "0.1", BurstUseAnnotation: text})
		if err != nil || !near(got.IdleCPU, want) || got.NodeCost != 0.1 {
			t.Errorf("%q: %+v, %v; want idle %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "101", "half", "NaN", "0.4x"} {
		got, err := DeclaredCost(map[string]string{NodeCostAnnotation: "0.1", BurstUseAnnotation: text})
		if err == nil || got != (Declared{NodeCost: 0.1}) || !strings.Contains(err.Error(), "metadata.annotations[slipway.dev/burst-use]") || !strings.Contains(err.Error(), "0 to 100") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if _, err := DeclaredCost(map[string]string{NodeCostAnnotation: "x", BurstUseAnnotation: "y"}); err == nil ||
		!strings.Contains(err.Error(), NodeCostAnnotation) || !strings.Contains(err.Error(), BurstUseAnnotation) {
		t.Errorf("two mistakes: %v", err)
	}
}

func TestAssuming(t *testing.T) {
	c := Charges{Volumes: 1, BaselineCPU: 200, SurplusCPU: 0.05}
	for idle, want := range map[float64]Charges{
		0: c, 0.5: {Volumes: 1, BaselineCPU: 400, SurplusCPU: 0.025}, 1: {Volumes: 1},
	} {
		got := c.Assuming(idle)
		if got != want {
			t.Errorf("idle %v: %+v, want %+v", idle, got, want)
		}
		if used := int64(1000 * (1 - idle)); !near(got.Burst(1000), c.Burst(used)) {
			t.Errorf("idle %v: 1 CPU costs %v, %dm in use cost %v", idle, got.Burst(1000), used, c.Burst(used))
		}
	}
	if got := (Charges{Volumes: 1}).Assuming(0.5); got != (Charges{Volumes: 1}) {
		t.Errorf("without a baseline: %+v", got)
	}
}

func TestCostIsReadAsWritten(t *testing.T) {
	c := Cost{Instance: 0.0336, Volumes: 0.002192, Burst: 0.01}
	if got, ok := ParseCost(FormatCost(c)); !ok || got != c || !near(got.Total(), 0.045792) {
		t.Errorf("%+v", got)
	}
	if _, ok := ParseCost("{"); ok {
		t.Error("half an object is read")
	}
	if got, want := c.String(), "instance 0.0336 + volumes 0.0022 + burst 0.0100"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A price that is written, as an annotation, and read again has the digits that it had before: once 0.1478 was 0.1479.
func TestUSDIsRoundedOnce(t *testing.T) {
	for _, price := range []float64{0.147849, 0.14785, 0.1478499, 0.14784999999, 0.00005, 12.34565} {
		read, err := strconv.ParseFloat(fmt.Sprintf("%.6f", price), 64)
		if err != nil {
			t.Fatal(err)
		}
		if now, then := USD(price), USD(read); now != then {
			t.Errorf("%v is %s, and %s once it was written", price, now, then)
		}
	}
}

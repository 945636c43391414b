package catalog

import "testing"

// Windows costs what AWS adds per vCPU, on burstable types what it adds per size; a reservation is paid for.
func TestWindowsIsPaidFor(t *testing.T) {
	for name, tc := range map[string]struct {
		facts  Facts
		family string
		want   float64
	}{
		"linux":     {Facts{Name: "m5.large", VCPUs: 2}, FamilyAL2023, 0},
		"m5.large":  {Facts{Name: "m5.large", VCPUs: 2}, FamilyWindows2022, 0.092},
		"t3.medium": {Facts{Name: "t3.medium", VCPUs: 2}, FamilyWindows2019, 0.0184},
		"trn1":      {Facts{Name: "trn1.2xlarge", VCPUs: 8}, FamilyWindows2019, 0.368},
	} {
		if got := LicenseUSD(tc.facts, tc.family); got != tc.want {
			t.Errorf("%s: %v USD per hour, want %v", name, got, tc.want)
		}
	}
	offerings := []Offering{{CapacityType: "spot", Price: 0.03}, {CapacityType: "reserved", Price: 0.0001}}
	paid := charges(Facts{Name: "m5.large", VCPUs: 2}, NodeClass{AMIFamily: FamilyWindows2022})
	paid.Volumes = 0.01
	paid.AddTo(offerings)
	if got := Micro(offerings[0].Price); got != 0.132 {
		t.Errorf("spot costs %v, want 0.132", got)
	}
	if got := Micro(offerings[1].Price); got != 0.0101 {
		t.Errorf("a reserved instance costs %v, want 0.0101", got)
	}
}

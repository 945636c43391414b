package ec2error

import (
	"slices"
	"strings"
)

// Quota is a quota on the vCPUs of running instances.
type Quota struct {
	// Code is that of Service Quotas, such as L-1216C47A.
	Code string
	// Name is that of Service Quotas, such as Running On-Demand P instances.
	Name string
}

// familyQuotas are the quotas of one group of instance families.
type familyQuotas struct {
	// families are the letters that the names of their types begin with.
	families []string
	// onDemand and spot are the two quotas; the zero Quota where EC2 has none.
	onDemand, spot Quota
}

// quotas lists the quotas that are not of the standard families (AWS General Reference, "Amazon EC2 endpoints and quotas",
// https://docs.aws.amazon.com/general/latest/gr/ec2-service.html).
func quotas() []familyQuotas {
	return []familyQuotas{
		{[]string{"g", "gr", "vt"}, Quota{"L-DB2E81BA", "Running On-Demand G and VT instances"}, Quota{"L-3819A6DF", "All G and VT Spot Instance Requests"}},
		{[]string{"p"}, Quota{"L-417A185B", "Running On-Demand P instances"}, Quota{"L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"}},
		{[]string{"f"}, Quota{"L-74FC7D96", "Running On-Demand F instances"}, Quota{"L-88CF9481", "All F Spot Instance Requests"}},
		{[]string{"inf"}, Quota{"L-1945791B", "Running On-Demand Inf instances"}, Quota{"L-B5D1601B", "All Inf Spot Instance Requests"}},
		{[]string{"trn"}, Quota{"L-2C3B7624", "Running On-Demand Trn instances"}, Quota{"L-6B0D517C", "All Trn Spot Instance Requests"}},
		{[]string{"dl"}, Quota{"L-6E869C2A", "Running On-Demand DL instances"}, Quota{"L-85EED4F7", "All DL Spot Instance Requests"}},
		{[]string{"x"}, Quota{"L-7295265B", "Running On-Demand X instances"}, Quota{"L-E3A00192", "All X Spot Instance Requests"}},
		{[]string{"u"}, Quota{"L-43DA4232", "Running On-Demand High Memory instances"}, Quota{}},
		{[]string{"hpc"}, Quota{"L-F7808C92", "Running On-Demand HPC instances"}, Quota{}},
	}
}

// QuotaOf returns the vCPU quota that instances of a type count against: on-demand ones, or for a code of a spot limit spot instances. It
// returns the zero Quota if EC2 has none.
func QuotaOf(instanceType string, code Code) Quota {
	family, _, _ := strings.Cut(instanceType, ".")
	letters := family
	if i := strings.IndexAny(family, "0123456789-"); i >= 0 {
		letters = family[:i]
	}
	ofSpot := code == MaxSpotInstanceCountExceeded || code == SpotInstanceCountExceeded
	if ofSpot && strings.HasPrefix(family, "p5") {
		return Quota{"L-C4BD4855", "All P5 Spot Instance Requests"}
	}
	found := familyQuotas{
		onDemand: Quota{"L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"},
		spot:     Quota{"L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"},
	}
	for _, q := range quotas() {
		if slices.Contains(q.families, letters) {
			found = q
		}
	}
	if ofSpot {
		return found.spot
	}
	return found.onDemand
}

package instancetypes

import "strings"

// Usage is a product that instances use beside their compute, as AWS's price list has it.
type Usage struct {
	// Type is the usage type, such as EBS:VolumeUsage.gp3. Service is the service code.
	Type, Service string
	// Unit and USD are the price in us-east-1.
	Unit string
	USD  float64
	// Attributes of the product; productFamily is one of them, if it has one.
	Attributes map[string]string
}

// DedicatedFactor is how much more instances of dedicated tenancy cost on demand: about as m5 does in us-east-1 (aws.amazon.com/ec2/pricing/dedicated-instances,
// November 2026).
const DedicatedFactor = 1.0625

// Usages returns what instances in us-east-1 use beside their compute, as AWS lists it (pages "Amazon EBS pricing", "Amazon VPC
// pricing" and "Amazon EC2 On-Demand Pricing", November 2026): some products have no family, io2's IOPS have a product per tier, and
// throughput is listed per GiB/s.
func Usages() []Usage {
	var out []Usage
	ebs := func(family, unit, volume, usage string, usd float64) {
		out = append(out, Usage{Type: usage, Service: "AmazonEC2", Unit: unit, USD: usd, Attributes: map[string]string{
			"productFamily": family, "volumeApiName": volume, "usagetype": usage,
		}})
	}
	const storage, operation = "Storage", "System Operation"
	ebs(storage, "GB-Mo", "gp2", "EBS:VolumeUsage.gp2", 0.1)
	ebs(storage, "GB-Mo", "gp3", "EBS:VolumeUsage.gp3", 0.08)
	ebs(storage, "GB-Mo", "io1", "EBS:VolumeUsage.piops", 0.125)
	ebs(storage, "GB-month", "io2", "EBS:VolumeUsage.io2", 0.125)
	ebs(storage, "GB-Mo", "st1", "EBS:VolumeUsage.st1", 0.045)
	ebs(storage, "GB-Mo", "sc1", "EBS:VolumeUsage.sc1", 0.015)
	ebs(storage, "GB-Mo", "standard", "EBS:VolumeUsage", 0.05)
	ebs(operation, "IOs", "standard", "EBS:VolumeIOUsage", 0.00000005)
	ebs(operation, "IOPS-Mo", "gp3", "EBS:VolumeP-IOPS.gp3", 0.005)
	ebs(operation, "IOPS-Mo", "io1", "EBS:VolumeP-IOPS.piops", 0.065)
	ebs(operation, "IOPS-Mo", "io2", "EBS:VolumeP-IOPS.io2", 0.065)
	ebs(operation, "IOPS-Mo", "io2", "EBS:VolumeP-IOPS.io2.tier2", 0.0455)
	ebs(operation, "IOPS-Mo", "io2", "EBS:VolumeP-IOPS.io2.tier3", 0.03185)
	ebs("Provisioned Throughput", "GiBps-mo", "gp3", "EBS:VolumeP-Throughput.gp3", 40.96)
	for _, state := range []string{"InUseAddress", "IdleAddress"} {
		usage := "USE1-PublicIPv4:" + state
		out = append(out, Usage{Type: usage, Service: "AmazonVPC", Unit: "Hrs", USD: 0.005, Attributes: map[string]string{
			"group": "VPCPublicIPv4Address", "usagetype": usage,
		}})
	}
	for family, usd := range map[string]float64{"t2": 0.05, "t3": 0.05, "t3a": 0.05, "t4g": 0.04} {
		usage := "CPUCredits:" + family
		out = append(out, Usage{Type: usage, Service: "AmazonEC2", Unit: "vCPU-Hours", USD: usd, Attributes: map[string]string{
			"productFamily": "CPU Credits", "operatingSystem": "Linux", "instance": strings.ToUpper(family), "usagetype": usage,
		}})
	}
	return out
}

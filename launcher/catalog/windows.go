package catalog

import (
	"strings"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"
	corev1 "k8s.io/api/core/v1"
)

// The AMI families of Windows Server Core.
const (
	FamilyWindows2019 = "Windows2019"
	FamilyWindows2022 = "Windows2022"
	FamilyWindows2025 = "Windows2025"
)

// ResourcePrivateIPv4 is the resource of which each pod on Windows takes one: an address of the node's network interface. The VPC resource
// controller of EKS reports it on the Node and adds the request to pods (EKS user guide, "Deploy Windows nodes on EKS clusters").
const ResourcePrivateIPv4 corev1.ResourceName = "vpc.amazonaws.com/PrivateIPv4Address"

// WindowsBuild returns the value of the label node.kubernetes.io/windows-build on nodes of an AMI family (Microsoft, "Windows Server release
// information"); ok is false for families of Linux.
func WindowsBuild(family string) (build string, ok bool) {
	switch family {
	case FamilyWindows2019:
		return "10.0.17763", true
	case FamilyWindows2022:
		return "10.0.20348", true
	case FamilyWindows2025:
		return "10.0.26100", true
	}
	return "", false
}

// OS returns the operating system of nodes of an AMI family.
func OS(family string) corev1.OSName {
	if isWindows(family) {
		return corev1.Windows
	}
	return corev1.Linux
}

func isWindows(family string) bool {
	_, ok := WindowsBuild(family)
	return ok
}

// suitsWindows reports whether Windows nodes of EKS run on the type: amd64, and none of the families that EKS excludes (EKS user guide,
// "Deploy Windows nodes on EKS clusters", considerations).
func suitsWindows(f Facts) bool {
	family, _, _ := strings.Cut(f.Name, ".")
	switch family {
	case "c3", "c4", "d2", "i2", "m6a", "r3":
		return false
	case "m4":
		return f.Name == "m4.16xlarge"
	}
	return f.Arch == "amd64"
}

// privateIPv4 returns how many pods get an address on a Windows node: those of one network interface, less its own (VPC resource controller,
// pkg/provider/ip). It is 0 for a type that neither EC2 nor the controller knows.
func privateIPv4(f Facts) int64 {
	addresses := f.IPv4PerENI
	if limits := vpc.Limits[f.Name]; limits != nil {
		addresses = int64(limits.IPv4PerInterface)
	}
	return max(addresses-1, 0)
}

// windowsPerVCPU is the price of Windows in USD per hour and vCPU, which AWS adds to an instance's price in every region (Amazon EC2
// On-Demand Pricing, Windows less Linux of m5, c5 and r5; November 2026).
const windowsPerVCPU = 0.046

// LicenseUSD returns what AWS adds to the instance's price for its operating system, in USD per hour: nothing but for Windows. Spot prices of
// Windows have the same addition.
func LicenseUSD(f Facts, family string) float64 {
	if !isWindows(family) {
		return 0
	}
	instance, size, _ := strings.Cut(f.Name, ".")
	switch instance {
	case "t2", "t3", "t3a":
		if usd, ok := windowsBurstable()[size]; ok {
			return usd
		}
	}
	return Micro(windowsPerVCPU * float64(f.VCPUs))
}

// windowsBurstable returns the price of Windows on T2, T3 and T3a, by size (as above).
func windowsBurstable() map[string]float64 {
	return map[string]float64{
		"nano": 0.0046, "micro": 0.0092, "small": 0.0184, "medium": 0.0184, "large": 0.0276, "xlarge": 0.0736, "2xlarge": 0.1472,
	}
}

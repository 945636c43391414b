package builtin

import (
	"math"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// Region is the region of the prices. The types are the same in all regions, but not every region offers each.
	Region = "us-east-1"
	// Date is the month of the prices. They change rarely, and then mostly for types of older generations.
	Date = "2026-07"
)

// The kinds of accelerators.
const (
	// GPU is a graphics processor.
	GPU = "gpu"
	// Neuron is AWS's Inferentia or Trainium.
	Neuron = "neuron"
)

// Accelerators describes the accelerators of one type; all are alike.
type Accelerators struct {
	// Kind is GPU or Neuron.
	Kind string
	// Manufacturer such as NVIDIA, Name such as A10G.
	Manufacturer, Name string
	// Count is their number, Cores and MemoryMiB those of each; GPUs have no cores.
	Count, Cores, MemoryMiB int
}

// Disks describes the instance store; all disks are alike, and NVMe.
type Disks struct {
	// Kind is ssd or hdd.
	Kind string
	// Count is their number, GB the size of each.
	Count, GB int
}

// Type describes an instance type.
type Type struct {
	// Name such as m7g.2xlarge, of Family m7g and Size 2xlarge.
	Name, Family, Size string
	// Arch as EC2 names it: x86_64 or arm64.
	Arch string
	// Manufacturer of the processor: Intel, AMD or AWS.
	Manufacturer string
	// GHz is the sustained clock speed.
	GHz float64
	// VCPUs and Cores are the counts; VCPUs is Cores or twice as many.
	VCPUs, Cores int
	// MemoryMiB that EC2 advertises.
	MemoryMiB int64
	// Metal types have no hypervisor, Burstable ones have CPU credits, Previous ones are not of the current generation, Encrypted ones
	// encrypt the traffic between instances.
	Metal, Burstable, Previous, Encrypted bool
	// Accelerators; Count is 0 for most.
	Accelerators Accelerators
	// Disks; Count is 0 for most.
	Disks Disks
	// NetworkGbps is the sustained bandwidth, PeakGbps what bursts reach.
	NetworkGbps, PeakGbps float64
	// EBSMbps is the maximum bandwidth to EBS.
	EBSMbps int
	// EFAs is the number of Elastic Fabric Adapters.
	EFAs int
	// Limits are those of its network interfaces.
	Limits *vpc.VPCLimits
	// Price on demand, USD per hour.
	Price float64
}

// ENIs is the number of network interfaces of the default network card.
func (t Type) ENIs() int {
	for _, card := range t.Limits.NetworkCards {
		if card.NetworkCardIndex == int64(t.Limits.DefaultNetworkCardIndex) {
			return int(card.MaximumNetworkInterfaces)
		}
	}
	return t.Limits.Interface
}

// round rounds to n decimal places, as price lists do.
func round(x float64, n int) float64 {
	p := math.Pow10(n)
	return math.Round(x*p) / p
}

// Facts converts the type to the catalog's Facts. The caller adds the zones.
func (t Type) Facts() catalog.Facts {
	f := catalog.Facts{
		Name: t.Name, Arch: t.Arch, VCPUs: int64(t.VCPUs), MemoryMiB: t.MemoryMiB, Hypervisor: "nitro",
		BareMetal: t.Metal, Burstable: t.Burstable, CurrentGeneration: !t.Previous, EncryptionInTransit: t.Encrypted,
		CPUManufacturer: t.Manufacturer, ClockMHz: int64(math.Round(t.GHz * 1000)),
		ENIs: int64(t.ENIs()), IPv4PerENI: int64(t.Limits.IPv4PerInterface), EFAs: int64(t.EFAs),
		InstanceStoreGB: int64(t.Disks.Count * t.Disks.GB), Disks: int64(t.Disks.Count), LocalNVMe: t.Disks.Count > 0,
		EBSBandwidthMbps: int64(t.EBSMbps), NetworkBandwidthMbps: int64(math.Round(t.NetworkGbps * 1000)),
		CapacityTypes: []string{"on-demand", "spot"},
	}
	if f.Arch == "x86_64" {
		f.Arch = "amd64"
	}
	if t.Metal {
		f.Hypervisor = ""
	}
	for _, card := range t.Limits.NetworkCards {
		f.NetworkCards = append(f.NetworkCards, catalog.NetworkCard{Index: card.NetworkCardIndex, ENIs: card.MaximumNetworkInterfaces})
	}
	a := t.Accelerators
	device := catalog.Device{Name: a.Name, Manufacturer: a.Manufacturer, Count: int64(a.Count), MemoryMiB: int64(a.MemoryMiB), Cores: int64(a.Cores)}
	switch {
	case a.Count == 0:
	case a.Kind == GPU:
		device.Cores = 0
		f.GPUs = []catalog.Device{device}
	default:
		// For Neuron devices EC2 returns no manufacturer and no memory in the fields that the catalog reads.
		device.Manufacturer, device.MemoryMiB = "", 0
		f.Neuron = []catalog.Device{device}
	}
	return f
}

package instancetypes

import (
	"math"
	"slices"
	"strings"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"
)

// The kinds of accelerators.
const (
	// GPU is a graphics processor.
	GPU = "gpu"
	// Neuron is AWS's Inferentia or Trainium.
	Neuron = "neuron"
)

// Accelerators are those of one type; all alike.
type Accelerators struct {
	// Kind is GPU or Neuron.
	Kind string
	// Manufacturer such as NVIDIA, Name such as A10G.
	Manufacturer, Name string
	// Count of them, Cores and MemoryMiB of each; GPUs tell no cores.
	Count, Cores, MemoryMiB int
}

// Disks are the instance store; all alike.
type Disks struct {
	// Kind is ssd or hdd.
	Kind string
	// Count of them, GB of each.
	Count, GB int
}

// Type is what there is to know of an instance type.
type Type struct {
	// Name such as m7g.2xlarge, of Family m7g and Size 2xlarge.
	Name, Family, Size string
	// Arch as EC2 names it: x86_64 or arm64.
	Arch string
	// Manufacturer of the processor: Intel, AMD or AWS.
	Manufacturer string
	// GHz is the sustained clock speed.
	GHz float64
	// VCPUs and Cores; VCPUs is Cores or twice as many.
	VCPUs, Cores int
	// MemoryMiB that EC2 advertises.
	MemoryMiB int64
	// Metal types are without a hypervisor, Burstable ones have CPU credits, Previous ones are not of the current
	// generation, Encrypted ones encrypt what they send to each other.
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
	// Limits of its network interfaces.
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

// Table is all instance types.
type Table struct {
	types  []Type
	byName map[string]int
	seed   int64
}

// All returns the types, sorted by name. The caller must not change them.
func (t *Table) All() []Type { return t.types }

// Get returns the type of a name.
func (t *Table) Get(name string) (Type, bool) {
	i, ok := t.byName[name]
	if !ok {
		return Type{}, false
	}
	return t.types[i], true
}

func newTable(types []Type, seed int64) *Table {
	slices.SortFunc(types, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	t := &Table{types: types, byName: make(map[string]int, len(types)), seed: seed}
	for i := range types {
		t.byName[types[i].Name] = i
	}
	return t
}

// round to n digits behind the point, as price lists are.
func round(x float64, n int) float64 {
	p := math.Pow10(n)
	return math.Round(x*p) / p
}

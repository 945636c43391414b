package catalog

import "cmp"

// Facts holds EC2's description of an instance type (DescribeInstanceTypes) in plain values. A number that EC2 did not return is zero, a
// string empty.
type Facts struct {
	// Name such as m7g.large.
	Name string
	// Arch is amd64 or arm64.
	Arch string
	// VCPUs by default, and MemoryMiB that EC2 advertises.
	VCPUs, MemoryMiB int64
	// Hypervisor is nitro or xen; empty for bare metal.
	Hypervisor string
	// BareMetal, Burstable and CurrentGeneration are EC2's flags of the same names.
	BareMetal, Burstable, CurrentGeneration bool
	// Hibernation means that EC2 can hibernate instances of the type: its flag hibernationSupported.
	Hibernation bool
	// EncryptionInTransit means that traffic between instances is encrypted.
	EncryptionInTransit bool
	// NestedVirtualization means that its CPUs can run virtual machines.
	NestedVirtualization bool
	// CPUManufacturer such as Intel, AMD or AWS.
	CPUManufacturer string
	// ClockMHz is the sustained clock speed.
	ClockMHz int64
	// ENIs is the number of network interfaces of the default network card, the only one that the VPC CNI uses.
	ENIs int64
	// NetworkCards lists all network cards of the instance type.
	NetworkCards []NetworkCard
	// IPv4PerENI is the number of IPv4 addresses of one network interface, its primary one included.
	IPv4PerENI int64
	// EFAs is the maximum number of Elastic Fabric Adapters.
	EFAs int64
	// PlacementStrategies are those of placement groups that it supports; none if EC2 returned none.
	PlacementStrategies []string
	// InstanceStoreGB is the size of all local disks, in GB of 10^9 bytes.
	InstanceStoreGB int64
	// Disks is the number of local disks.
	Disks int64
	// LocalNVMe means that the local disks are NVMe.
	LocalNVMe bool
	// EBSBandwidthMbps is the maximum bandwidth if EBS optimization is the default.
	EBSBandwidthMbps int64
	// EBSAttachments is EC2's maximum number of attached EBS volumes, the root volume included.
	EBSAttachments int64
	// EBSDedicated means that these attachments are not shared with network interfaces, local disks and accelerators.
	EBSDedicated bool
	// NetworkBandwidthMbps is the baseline of all network cards together.
	NetworkBandwidthMbps int64
	// GPUs lists the GPUs by model.
	GPUs []Device
	// Accelerators lists the accelerators for inference, Neuron devices excepted.
	Accelerators []Device
	// Neuron lists the Neuron devices (Inferentia, Trainium).
	Neuron []Device
	// CapacityTypes lists how the type can be bought: spot, on-demand.
	CapacityTypes []string
	// Zones lists the zones in which the type is offered, such as us-east-1a.
	Zones []string
}

// NetworkCard is one network card of an instance type.
type NetworkCard struct {
	// Index is the card's number, ENIs its maximum number of network interfaces.
	Index, ENIs int64
}

// Device is one model of GPU or accelerator in an instance type.
type Device struct {
	// Name such as A10G, Manufacturer such as NVIDIA.
	Name, Manufacturer string
	// Count of devices.
	Count int64
	// MemoryMiB of one device.
	MemoryMiB int64
	// Cores of one Neuron device.
	Cores int64
}

// The AMI families of Linux in EC2NodeClass (spec.amiFamily, or the family of its alias).
const (
	FamilyAL2          = "AL2"
	FamilyAL2023       = "AL2023"
	FamilyBottlerocket = "Bottlerocket"
	FamilyCustom       = "Custom"
)

// NodeClass holds the settings of an EC2NodeClass that decide the capacity of its nodes.
type NodeClass struct {
	// AMIFamily is one of the Family constants.
	AMIFamily string
	// MaxPods and PodsPerCore of spec.kubelet; nil where not set.
	MaxPods, PodsPerCore *int32
	// KubeReserved, SystemReserved and EvictionHard of spec.kubelet, by resource or eviction signal.
	KubeReserved, SystemReserved, EvictionHard map[string]string
	// BlockDevices of spec.blockDeviceMappings.
	BlockDevices []BlockDevice
	// PublicIPv4 means that nodes get a public IPv4 address.
	PublicIPv4 bool
	// Rates are the region's prices of what nodes use beside their instances; nil means BuiltinRates.
	Rates *Rates
	// RAID0 means that spec.instanceStorePolicy joins the local disks for kubelet and containerd.
	RAID0 bool
	// PlacementGroup is that of all nodes; zero for none.
	PlacementGroup PlacementGroup
	// NetworkInterfaces are those of spec.networkInterfaces; an empty list means one interface at launch.
	NetworkInterfaces []NetworkInterface
	// ConnectionTracking and NestedVirtualization mean that the class requests these features: not every instance type has them.
	ConnectionTracking, NestedVirtualization bool
	// ReservedENIs is the number of network interfaces that give no addresses to pods (the setting RESERVED_ENIS).
	ReservedENIs int64
	// MemoryOverhead is the share of the advertised memory that firmware and kernel are assumed to use (the setting
	// VM_MEMORY_OVERHEAD_PERCENT); nil means Karpenter's default of 0.075.
	MemoryOverhead *float64
	// Learned holds the reports of the class's nodes, by instance type. As far as they are trusted they replace computed values.
	Learned map[string]Learned
}

// NetworkInterface is one entry of spec.networkInterfaces.
type NetworkInterface struct {
	// Card and Device are the indexes of the network card and of the device.
	Card, Device int64
	// EFAOnly means that the interface carries no IP traffic.
	EFAOnly bool
}

// BlockDevice is one entry of spec.blockDeviceMappings.
type BlockDevice struct {
	// DeviceName such as /dev/xvda.
	DeviceName string
	// Root means that the user marked the device as the root volume.
	Root bool
	// SizeBytes is the volume's size; 0 if not set.
	SizeBytes int64
	// Encrypted means that the volume is.
	Encrypted bool
	// Type is the EBS volume type; empty for gp3.
	Type string
	// IOPS and MiBps are the provisioned operations and MiB per second; 0 if not set.
	IOPS, MiBps int64
}

func (d BlockDevice) volumeType() string { return cmp.Or(d.Type, "gp3") }

func (d BlockDevice) volumeBytes() int64 { return cmp.Or(d.SizeBytes, DefaultVolumeBytes) }

// RootDevice returns the device with the files of kubelet and containerd, as Karpenter's AMI families define it. It returns "" for a family
// whose device is unknown.
func RootDevice(family string) string {
	switch family {
	case FamilyBottlerocket:
		return "/dev/xvdb"
	case FamilyAL2, FamilyAL2023:
		return "/dev/xvda"
	case FamilyWindows2019, FamilyWindows2022, FamilyWindows2025:
		return "/dev/sda1"
	}
	return ""
}

// DefaultVolumeBytes is the size of a root volume without a configured size: 20 GiB, and 50 GiB for Windows, as in Karpenter.
const (
	DefaultVolumeBytes = 20 << 30
	windowsVolumeBytes = 50 << 30
)

func defaultVolumeBytes(family string) int64 {
	if isWindows(family) {
		return windowsVolumeBytes
	}
	return DefaultVolumeBytes
}

// Supported reports whether nodes can be launched with an AMI family.
func Supported(family string) bool {
	return RootDevice(family) != "" || family == FamilyCustom
}

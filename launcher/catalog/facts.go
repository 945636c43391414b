package catalog

// Facts is what EC2 tells about an instance type (DescribeInstanceTypes), in plain values. A number that EC2 does not
// tell is zero, a text empty.
type Facts struct {
	// Name such as m7g.large.
	Name string
	// Arch is amd64 or arm64.
	Arch string
	// VCPUs by default, and MemoryMiB that EC2 advertises.
	VCPUs, MemoryMiB int64
	// Hypervisor is nitro or xen; empty for bare metal.
	Hypervisor string
	// BareMetal, Burstable and CurrentGeneration as EC2 says.
	BareMetal, Burstable, CurrentGeneration bool
	// EncryptionInTransit says that traffic between instances is encrypted.
	EncryptionInTransit bool
	// NestedVirtualization says that its CPUs can run virtual machines.
	NestedVirtualization bool
	// CPUManufacturer such as Intel, AMD or AWS.
	CPUManufacturer string
	// ClockMHz is the sustained clock speed.
	ClockMHz int64
	// ENIs of the default network card: the only one that the VPC CNI uses.
	ENIs int64
	// NetworkCards are all of the instance type's.
	NetworkCards []NetworkCard
	// IPv4PerENI is how many IPv4 addresses one network interface holds, its own included.
	IPv4PerENI int64
	// EFAs is how many Elastic Fabric Adapters it can have.
	EFAs int64
	// InstanceStoreGB is the size of all local disks, in GB of 10^9 bytes.
	InstanceStoreGB int64
	// Disks is how many local disks it has.
	Disks int64
	// LocalNVMe says that the local disks are NVMe.
	LocalNVMe bool
	// EBSBandwidthMbps is the maximum where EBS optimization is the default.
	EBSBandwidthMbps int64
	// EBSAttachments is how many EBS volumes EC2 says can be attached, the root volume included.
	EBSAttachments int64
	// EBSDedicated says that these attachments are not shared with network interfaces, local disks and accelerators.
	EBSDedicated bool
	// NetworkBandwidthMbps is the baseline of all network cards.
	NetworkBandwidthMbps int64
	// GPUs by model.
	GPUs []Device
	// Accelerators for inference, Neuron devices excepted.
	Accelerators []Device
	// Neuron devices (Inferentia, Trainium).
	Neuron []Device
	// CapacityTypes in which it can be bought: spot, on-demand.
	CapacityTypes []string
	// Zones in which it is offered, such as us-east-1a.
	Zones []string
}

// NetworkCard is one network card of an instance type.
type NetworkCard struct {
	// Index of the card, and the network interfaces that it can have.
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

// The AMI families of EC2NodeClass that the launcher knows (spec.amiFamily, or the family of its alias).
const (
	FamilyAL2          = "AL2"
	FamilyAL2023       = "AL2023"
	FamilyBottlerocket = "Bottlerocket"
	FamilyCustom       = "Custom"
)

// NodeClass is what an EC2NodeClass says about the room on its nodes.
type NodeClass struct {
	// AMIFamily is one of the Family constants.
	AMIFamily string
	// MaxPods and PodsPerCore of spec.kubelet; nil where not set.
	MaxPods, PodsPerCore *int32
	// KubeReserved, SystemReserved and EvictionHard of spec.kubelet, by resource or eviction signal.
	KubeReserved, SystemReserved, EvictionHard map[string]string
	// BlockDevices of spec.blockDeviceMappings.
	BlockDevices []BlockDevice
	// RAID0 says that spec.instanceStorePolicy joins the local disks for kubelet and containerd.
	RAID0 bool
	// NetworkInterfaces of spec.networkInterfaces; none means one interface to start with.
	NetworkInterfaces []NetworkInterface
	// ConnectionTracking and NestedVirtualization say that the class asks for them: not every instance type has them.
	ConnectionTracking, NestedVirtualization bool
	// ReservedENIs are network interfaces that pods get no addresses of (the setting RESERVED_ENIS).
	ReservedENIs int64
	// MemoryOverhead is the share of the advertised memory that firmware and kernel are taken to keep (the setting
	// VM_MEMORY_OVERHEAD_PERCENT); nil means Karpenter's default of 0.075.
	MemoryOverhead *float64
	// Learned is what nodes of the class have reported, by instance type; as far as it is believed it counts in place of what is
	// computed.
	Learned map[string]Learned
}

// NetworkInterface is one entry of spec.networkInterfaces.
type NetworkInterface struct {
	// Card and Device index.
	Card, Device int64
	// EFAOnly says that it carries no IP traffic.
	EFAOnly bool
}

// BlockDevice is one entry of spec.blockDeviceMappings.
type BlockDevice struct {
	// DeviceName such as /dev/xvda.
	DeviceName string
	// Root says that the user marked it as the root volume.
	Root bool
	// SizeBytes of the volume; 0 where not set.
	SizeBytes int64
}

// RootDevice is the device that holds the kubelet's and containerd's files: Karpenter's AMI families name the same.
// It is empty for a family whose device is not known.
func RootDevice(family string) string {
	switch family {
	case FamilyBottlerocket:
		return "/dev/xvdb"
	case FamilyAL2, FamilyAL2023:
		return "/dev/xvda"
	}
	return ""
}

// DefaultVolumeBytes is the size of a root volume for which nobody asked another: 20 GiB, as Karpenter's.
const DefaultVolumeBytes = 20 << 30

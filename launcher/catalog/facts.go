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
	// CPUManufacturer such as Intel, AMD or AWS.
	CPUManufacturer string
	// ClockMHz is the sustained clock speed.
	ClockMHz int64
	// ENIs of the default network card: the only one that the VPC CNI uses.
	ENIs int64
	// IPv4PerENI is how many IPv4 addresses one network interface holds, its own included.
	IPv4PerENI int64
	// InstanceStoreGB is the size of all local disks, in GB of 10^9 bytes.
	InstanceStoreGB int64
	// LocalNVMe says that the local disks are NVMe.
	LocalNVMe bool
	// EBSBandwidthMbps is the maximum where EBS optimization is the default.
	EBSBandwidthMbps int64
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

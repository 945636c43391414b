// Package instance describes a machine as the hardware and its user data do: what a kubelet on it could find out. It is
// plain data, so that simulated machines depend on no particular AWS, beside which Holds keep machines from starting. It has no goroutines.
package instance

import "time"

// State is the life of an EC2 instance as far as the machine in it is concerned.
type State int

// The states of a machine.
const (
	// Pending instances are being placed: nothing runs yet.
	Pending State = iota
	// Running instances boot, then run their kubelet.
	Running
	// Off instances (stopping, stopped) run nothing. Their disks stay.
	Off
	// Gone instances (shutting-down, terminated) run nothing any more, and have no disks.
	Gone
)

// Instance is one machine. Sizes are those that EC2 advertises; what the operating system sees is less.
type Instance struct {
	// ID is the EC2 instance id.
	ID string
	// Type is the EC2 instance type, for example m7g.large.
	Type string
	// Arch is amd64 or arm64.
	Arch string
	// CPUs is the number of vCPUs.
	CPUs int64
	// MemoryMiB is the advertised memory.
	MemoryMiB int64
	// GPUs is the number of accelerators that a device plugin will offer, under GPUResource.
	GPUs int64
	// GPUResource is the extended resource of the accelerators, for example nvidia.com/gpu.
	GPUResource string
	// EFAs is the number of Elastic Fabric Adapters that their device plugin will offer.
	EFAs int64
	// PodLimit is the number of pods that the network interfaces' addresses allow.
	PodLimit int64
	// InterfaceAddresses is the number of IPv4 addresses of one network interface.
	InterfaceAddresses int64
	// RootVolumeGiB is the size of the root volume, 0 for the AMI's 20 GiB.
	RootVolumeGiB int64
	// InstanceStoreGiB is the size of all local disks together.
	InstanceStoreGiB int64
	// Region and Zone are where it runs, ZoneID the zone's id that is the same in every account.
	Region, Zone, ZoneID string
	// PrivateIP and PrivateDNSName name it; the latter is the Node's name. PrivateIP is an IPv6 address in an IPv6 cluster.
	PrivateIP, PrivateDNSName string
	// ImageID is the AMI, Windows whether it runs Windows.
	ImageID string
	Windows bool
	// Launched is when EC2 accepted the launch, or the last start after a stop.
	Launched time.Time
	// Starts is how often it was started after a stop. Its disks are as they were then.
	Starts int
	// Hibernated means that the last stop was a hibernation: it goes on from there.
	Hibernated bool
	// State is the present state.
	State State
	// UserData is what the launch template gave it, decoded.
	UserData string
	// NodeGroup is the EKS managed node group that it belongs to. Such an instance has user data of EKS's own.
	NodeGroup string
	// Spot is true for a spot instance, false for an on-demand one.
	Spot bool
	// FailJoin makes the machine never start its kubelet.
	FailJoin bool
}

// OS is the machine's operating system as its kubelet names it.
func (i Instance) OS() string {
	if i.Windows {
		return "windows"
	}
	return "linux"
}

// ProviderID is spec.providerID of the Node of this instance.
func (i Instance) ProviderID() string { return "aws:///" + i.Zone + "/" + i.ID }

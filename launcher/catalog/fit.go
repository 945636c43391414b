package catalog

import "strings"

// Suits says whether an instance type can be launched from a class at all: EC2 or the AMI would refuse it otherwise.
func Suits(f Facts, class NodeClass) bool {
	switch {
	case class.AMIFamily == FamilyAL2023 && strings.HasPrefix(f.Name, "a1."):
		return false // AL2023 needs Graviton2 or later (AL2023 user guide, "System requirements").
	case class.NestedVirtualization && !f.NestedVirtualization:
		return false
	case class.ConnectionTracking && f.Hypervisor == "xen":
		return false // Idle timeouts of tracked connections are for Nitro alone.
	}
	return suitsInterfaces(f, class.NetworkInterfaces)
}

// suitsInterfaces says whether the type has the network cards, their interfaces and EFAs that a class names.
func suitsInterfaces(f Facts, list []NetworkInterface) bool {
	efas := int64(0)
	for _, i := range list {
		if i.EFAOnly {
			efas++
		}
		found := false
		for _, card := range f.NetworkCards {
			found = found || card.Index == i.Card && i.Device < card.ENIs
		}
		if !found {
			return false
		}
	}
	return efas <= f.EFAs
}

const (
	// nitroAttachments is how many attachments a Nitro instance has where volumes share them with network interfaces, local
	// disks and accelerators, and xenVolumes how many volumes are advised elsewhere (EC2 user guide, "Amazon EBS volume
	// limits for Amazon EC2 instances").
	nitroAttachments = 28
	xenVolumes       = 39
)

// VolumeAttachments is how many EBS volumes pods can have on a node of the type: what is left beside the volumes of the
// class and, where the limit is shared, beside the network interfaces that the node's pods may need, local NVMe disks and
// accelerators. The EBS CSI driver counts the network interfaces there are when it starts, so it reports this or more. At
// least 1, as the driver reports.
func VolumeAttachments(f Facts, class NodeClass) int64 {
	volumes := max(int64(len(class.BlockDevices)), 1)
	if len(class.BlockDevices) == 0 && class.AMIFamily == FamilyBottlerocket {
		volumes = 2 // Its system's and its data's.
	}
	switch {
	case f.Hypervisor == "xen":
		return max(xenVolumes-volumes, 1)
	case f.EBSDedicated && f.EBSAttachments > 0:
		return max(f.EBSAttachments-volumes, 1)
	}
	left := int64(nitroAttachments - 1) // The first network interface.
	for _, d := range f.GPUs {
		left -= d.Count
	}
	for _, d := range f.Neuron {
		left -= d.Count
	}
	if f.LocalNVMe {
		left -= f.Disks
	}
	if f.EBSAttachments > 0 {
		left = min(left, f.EBSAttachments)
	}
	return max(left-(interfaces(f, class)-1)-volumes, 1)
}

// interfaces is how many network interfaces the VPC CNI attaches for as many pods as the node takes: one is kept warm.
func interfaces(f Facts, class NodeClass) int64 {
	enis, addresses := eniLimits(f)
	if enis == 0 || addresses < 2 {
		return 1
	}
	need := (MaxPods(f, class) + addresses - 2) / (addresses - 1)
	return min(enis, need+1) + int64(len(class.NetworkInterfaces))
}

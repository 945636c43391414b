package catalog

import (
	"slices"
	"strings"
)

// Suits reports whether an instance type can be launched from a class: EC2 rejects the others, or their AMI does not run.
func Suits(f Facts, class NodeClass) bool {
	switch {
	case class.AMIFamily == FamilyAL2023 && strings.HasPrefix(f.Name, "a1."):
		return false // AL2023 needs Graviton2 or later (AL2023 user guide, "System requirements").
	case isWindows(class.AMIFamily) && !suitsWindows(f):
		return false
	case class.NestedVirtualization && !f.NestedVirtualization:
		return false
	case class.ConnectionTracking && f.Hypervisor == "xen":
		return false // Only Nitro instances have idle timeouts for tracked connections.
	case class.PlacementGroup.ID != "" && len(f.PlacementStrategies) > 0 && !slices.Contains(f.PlacementStrategies, class.PlacementGroup.Strategy):
		return false
	}
	return suitsInterfaces(f, class.NetworkInterfaces)
}

// suitsInterfaces reports whether the type has the network cards, interfaces and EFAs that a class names.
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
	// nitroAttachments is the number of attachments of a Nitro instance whose volumes share them with network interfaces, local disks and
	// accelerators. xenVolumes is the recommended number of volumes of other instances (EC2 user guide, "Amazon EBS volume limits for Amazon
	// EC2 instances").
	nitroAttachments = 28
	xenVolumes       = 39
)

// VolumeAttachments returns how many EBS volumes pods can have on a node of the type: the limit less the volumes of the class. If the limit
// is shared, it also subtracts the network interfaces that the node's pods may need, local NVMe disks and accelerators. The EBS CSI driver
// counts the network interfaces that exist when it starts, so it reports this number or more. The result is at least 1, as the driver's.
func VolumeAttachments(f Facts, class NodeClass) int64 {
	volumes := max(int64(len(class.BlockDevices)), 1)
	if len(class.BlockDevices) == 0 && class.AMIFamily == FamilyBottlerocket {
		volumes = 2 // One volume for the system and one for its data.
	}
	switch {
	case f.Hypervisor == "xen":
		return max(xenVolumes-volumes, 1)
	case f.EBSDedicated && f.EBSAttachments > 0:
		return max(f.EBSAttachments-volumes, 1)
	}
	left := int64(nitroAttachments - 1) // Less the first network interface.
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

// interfaces returns how many network interfaces the VPC CNI attaches for the node's maximum number of pods; it keeps one spare.
func interfaces(f Facts, class NodeClass) int64 {
	enis, addresses := eniLimits(f)
	if enis == 0 || addresses < 2 {
		return 1
	}
	need := (MaxPods(f, class) + addresses - 2) / (addresses - 1)
	return min(enis, need+1) + int64(len(class.NetworkInterfaces))
}

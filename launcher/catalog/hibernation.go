package catalog

import (
	"fmt"
	"slices"
)

const (
	// hibernatedMiB is the memory from which on EC2 hibernates no Linux instance.
	hibernatedMiB = 150 << 10
	// besideMemory is what a root volume needs beside the contents of the memory: the system, and images.
	besideMemory = 10 << 30
)

// NoHibernation returns why EC2 cannot hibernate an instance of the type that is launched from the class; empty if it can (EC2 User Guide, "Prerequisites for
// EC2 instance hibernation" and "Limitations"). Whether an AMI of the user's can is not known.
func NoHibernation(class NodeClass, f Facts) string {
	switch {
	case !slices.Contains([]string{FamilyAL2, FamilyAL2023, FamilyCustom}, class.AMIFamily):
		return "AMIs of the family " + class.AMIFamily + " do not hibernate"
	case f.BareMetal:
		return "bare metal instances do not hibernate"
	case !f.Hibernation:
		return "EC2 does not hibernate instances of the type " + f.Name
	case f.MemoryMiB >= hibernatedMiB:
		return fmt.Sprintf("%s has %d GiB of memory, and EC2 hibernates less than %d GiB", f.Name, f.MemoryMiB>>10, hibernatedMiB>>10)
	}
	root, known := rootVolume(class)
	need := f.MemoryMiB<<20 + besideMemory
	switch {
	case !known:
		return "spec.blockDeviceMappings of the EC2NodeClass has no root volume"
	case !root.Encrypted:
		return "the root volume is not encrypted in spec.blockDeviceMappings of the EC2NodeClass"
	case root.volumeBytes() < need:
		return fmt.Sprintf("the root volume has %d GiB, and the memory of %s needs %d GiB there, with %d GiB for the system and images",
			root.volumeBytes()>>30, f.Name, (need+1<<30-1)>>30, besideMemory>>30)
	}
	return ""
}

// rootVolume returns the volume that the system is on: the one that the user marked, the one of the family's device, or else the only one.
func rootVolume(class NodeClass) (BlockDevice, bool) {
	all := volumes(class)
	for _, is := range []func(BlockDevice) bool{
		func(d BlockDevice) bool { return d.Root },
		func(d BlockDevice) bool { return d.DeviceName == RootDevice(class.AMIFamily) },
		func(BlockDevice) bool { return len(all) == 1 },
	} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i], true
		}
	}
	return BlockDevice{}, false
}

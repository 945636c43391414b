package instance

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
	// amiVolumeGiB is the root volume of EKS's AMIs where no block device mapping says otherwise.
	amiVolumeGiB = 20
)

// SeenMemory is MemTotal in bytes. Firmware, kernel and crash kernel keep about 3%, and again as much up to 200 MiB:
// fits m5 and t3 instances from 2 to 64 GiB to a percent (m5.large reports 7750 MiB of 8192). On Graviton the kernel
// sets aside 64 MiB more for contiguous allocations.
func (i Instance) SeenMemory() int64 {
	share := i.MemoryMiB * 3 / 100
	seen := i.MemoryMiB - share - min(share, 200)
	if i.Arch == "arm64" {
		seen -= 64
	}
	return seen * mib
}

// SeenRootVolume is the capacity of the root volume's filesystem in bytes: partition table and XFS's own take 76 MiB.
func (i Instance) SeenRootVolume() int64 {
	volume := i.RootVolumeGiB
	if volume == 0 {
		volume = amiVolumeGiB
	}
	return volume*gib - 76*mib
}

// ReservedMilliCPU is what the boot agents of EKS's images reserve, in thousandths of a core: 6% of the first core, 1% of
// the second, 0.5% of the next two and 0.25% of the others (nodeadm's getCPUMillicoresToReserve).
func (i Instance) ReservedMilliCPU() int64 {
	tenths := int64(0) // of a millicore, to stay exact
	for core := range i.CPUs {
		switch {
		case core == 0:
			tenths += 600
		case core == 1:
			tenths += 100
		case core < 4:
			tenths += 50
		default:
			tenths += 25
		}
	}
	return tenths / 10
}

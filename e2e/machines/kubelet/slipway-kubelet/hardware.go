//go:build linux

package main

import (
	"context"

	cadvisorv1 "github.com/google/cadvisor/info/v1"
	cadvisorv2 "github.com/google/cadvisor/info/v2"
	"github.com/spf13/pflag"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
)

// hardware is what the machine has; 0 means what the host has.
type hardware struct {
	cpus                     int
	memoryBytes, volumeBytes uint64
}

func (h *hardware) addFlags(set *pflag.FlagSet) {
	set.IntVar(&h.cpus, "machine-cpus", 0, "number of CPUs of the machine")
	set.Uint64Var(&h.memoryBytes, "machine-memory-bytes", 0, "memory of the machine")
	set.Uint64Var(&h.volumeBytes, "machine-volume-bytes", 0, "size of the machine's root volume")
}

// machine is cAdvisor with other sizes than the host's.
type machine struct {
	cadvisor.Interface
	sizes hardware
}

// MachineInfo returns CPUs and memory. The topology stays the host's: cgroups can hold no other CPUs.
func (m machine) MachineInfo() (*cadvisorv1.MachineInfo, error) {
	info, err := m.Interface.MachineInfo()
	if err != nil {
		return nil, err
	}
	sized := *info
	if m.sizes.cpus > 0 {
		sized.NumCores = m.sizes.cpus
	}
	if m.sizes.memoryBytes > 0 {
		sized.MemoryCapacity = m.sizes.memoryBytes
	}
	return &sized, nil
}

// RootFsInfo returns the root volume.
func (m machine) RootFsInfo() (cadvisorv2.FsInfo, error) {
	info, err := m.Interface.RootFsInfo()
	return m.volume(info), err
}

// ImagesFsInfo returns the root volume, which holds images.
func (m machine) ImagesFsInfo(ctx context.Context) (cadvisorv2.FsInfo, error) {
	info, err := m.Interface.ImagesFsInfo(ctx)
	return m.volume(info), err
}

// ContainerFsInfo returns the root volume, which holds containers' layers.
func (m machine) ContainerFsInfo(ctx context.Context) (cadvisorv2.FsInfo, error) {
	info, err := m.Interface.ContainerFsInfo(ctx)
	return m.volume(info), err
}

// GetDirFsInfo returns the root volume, whichever of its folders is asked for: containerd names the one that holds images.
func (m machine) GetDirFsInfo(path string) (cadvisorv2.FsInfo, error) {
	info, err := m.Interface.GetDirFsInfo(path)
	return m.volume(info), err
}

// volume returns a file system of the given size of which 20% are used, as after a boot.
func (m machine) volume(info cadvisorv2.FsInfo) cadvisorv2.FsInfo {
	if m.sizes.volumeBytes > 0 {
		info.Capacity = m.sizes.volumeBytes
		info.Available = m.sizes.volumeBytes / 10 * 8
		info.Usage = info.Capacity - info.Available
	}
	return info
}

package catalog

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The labels of group karpenter.k8s.aws that the instance type decides (Karpenter, "Well-Known Labels").
const (
	LabelInstanceHypervisor          = "karpenter.k8s.aws/instance-hypervisor"
	LabelInstanceEncryptionInTransit = "karpenter.k8s.aws/instance-encryption-in-transit-supported"
	LabelInstanceCategory            = "karpenter.k8s.aws/instance-category"
	LabelInstanceCapabilityFlex      = "karpenter.k8s.aws/instance-capability-flex"
	LabelInstanceFamily              = "karpenter.k8s.aws/instance-family"
	LabelInstanceGeneration          = "karpenter.k8s.aws/instance-generation"
	LabelInstanceSize                = "karpenter.k8s.aws/instance-size"
	LabelInstanceLocalNVMe           = "karpenter.k8s.aws/instance-local-nvme"
	LabelInstanceCPU                 = "karpenter.k8s.aws/instance-cpu"
	LabelInstanceCPUManufacturer     = "karpenter.k8s.aws/instance-cpu-manufacturer"
	LabelInstanceClockMHz            = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
	LabelInstanceMemory              = "karpenter.k8s.aws/instance-memory"
	LabelInstanceEBSBandwidth        = "karpenter.k8s.aws/instance-ebs-bandwidth"
	LabelInstanceNetworkBandwidth    = "karpenter.k8s.aws/instance-network-bandwidth"
	LabelInstanceGPUName             = "karpenter.k8s.aws/instance-gpu-name"
	LabelInstanceGPUManufacturer     = "karpenter.k8s.aws/instance-gpu-manufacturer"
	LabelInstanceGPUCount            = "karpenter.k8s.aws/instance-gpu-count"
	LabelInstanceGPUMemory           = "karpenter.k8s.aws/instance-gpu-memory"
	LabelInstanceAcceleratorName     = "karpenter.k8s.aws/instance-accelerator-name"
	LabelInstanceAcceleratorMaker    = "karpenter.k8s.aws/instance-accelerator-manufacturer"
	LabelInstanceAcceleratorCount    = "karpenter.k8s.aws/instance-accelerator-count"
	LabelInstanceTenancy             = "karpenter.k8s.aws/instance-tenancy"
)

// Labels of nodes that the instance type does not decide.
const (
	// LabelNodeClass is Karpenter's label for the EC2NodeClass of a node.
	LabelNodeClass = "karpenter.k8s.aws/ec2nodeclass"
	// LabelZoneID is EKS's label with the ID of a node's zone.
	LabelZoneID = "topology.k8s.aws/zone-id"
)

// familyScheme splits a name such as u-6tb1.56xlarge or m7g.large into category, an optional size in the category (rare) and generation.
var familyScheme = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+)[^.]*\.`)

// Labels returns the labels of every node of the instance type and AMI family: architecture, operating system, instance type and those of
// group karpenter.k8s.aws that apply. A label that does not apply is absent, never empty.
func Labels(f Facts, family string) map[string]string {
	out := map[string]string{
		corev1.LabelInstanceTypeStable:   f.Name,
		corev1.LabelArchStable:           f.Arch,
		corev1.LabelOSStable:             string(OS(family)),
		LabelInstanceCPU:                 strconv.FormatInt(f.VCPUs, 10),
		LabelInstanceMemory:              strconv.FormatInt(f.MemoryMiB, 10),
		LabelInstanceEncryptionInTransit: strconv.FormatBool(f.EncryptionInTransit),
		LabelInstanceTenancy:             TenancyDefault,
	}
	set := func(key, value string) {
		if value != "" {
			out[key] = value
		}
	}
	number := func(key string, n int64) {
		if n > 0 {
			out[key] = strconv.FormatInt(n, 10)
		}
	}
	if build, ok := WindowsBuild(family); ok {
		out[corev1.LabelWindowsBuild] = build
	}
	nameLabels(f.Name, set)
	set(LabelInstanceHypervisor, f.Hypervisor)
	set(LabelInstanceCPUManufacturer, kebab(f.CPUManufacturer))
	number(LabelInstanceClockMHz, f.ClockMHz)
	number(LabelInstanceEBSBandwidth, f.EBSBandwidthMbps)
	number(LabelInstanceNetworkBandwidth, f.NetworkBandwidthMbps)
	if f.LocalNVMe {
		number(LabelInstanceLocalNVMe, f.InstanceStoreGB)
	}
	// A type with two GPU models gets no label of a GPU's name, as in Karpenter.
	if len(f.GPUs) == 1 {
		set(LabelInstanceGPUName, kebab(f.GPUs[0].Name))
		set(LabelInstanceGPUManufacturer, kebab(f.GPUs[0].Manufacturer))
		number(LabelInstanceGPUCount, f.GPUs[0].Count)
		number(LabelInstanceGPUMemory, f.GPUs[0].MemoryMiB)
	}
	if a, ok := accelerator(f); ok {
		set(LabelInstanceAcceleratorName, kebab(a.Name))
		set(LabelInstanceAcceleratorMaker, kebab(a.Manufacturer))
		number(LabelInstanceAcceleratorCount, a.Count)
	}
	return out
}

func nameLabels(name string, set func(key, value string)) {
	if parts := familyScheme.FindStringSubmatch(name); parts != nil {
		set(LabelInstanceCategory, parts[1])
		set(LabelInstanceGeneration, parts[2])
	}
	family, size, ok := strings.Cut(name, ".")
	if ok {
		set(LabelInstanceFamily, family)
		set(LabelInstanceSize, size)
	}
	set(LabelInstanceCapabilityFlex, strconv.FormatBool(strings.Contains(family, "-flex")))
}

// accelerator returns the accelerator to label. EC2 may list Neuron devices in both places; the Neuron entry is preferred.
func accelerator(f Facts) (Device, bool) {
	switch {
	case len(f.Neuron) == 1:
		d := f.Neuron[0]
		d.Manufacturer = "aws"
		return d, true
	case len(f.Neuron) == 0 && len(f.Accelerators) == 1:
		return f.Accelerators[0], true
	}
	return Device{}, false
}

func kebab(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "-")) }

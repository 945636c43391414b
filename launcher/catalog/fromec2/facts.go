// Package fromec2 converts EC2's answers and an EC2NodeClass to the catalog's plain values, for the launcher and the simulator. It is pure:
// it uses the types of AWS and Karpenter, and makes no calls.
package fromec2

import (
	"math"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Facts converts EC2's description of an instance type. ok is false if Kubernetes does not support its architecture. The caller adds the
// zones: EC2 returns them in another call.
func Facts(info ec2types.InstanceTypeInfo) (catalog.Facts, bool) {
	f := catalog.Facts{
		Name:              string(info.InstanceType),
		Hypervisor:        string(info.Hypervisor),
		BareMetal:         value(info.BareMetal),
		Burstable:         value(info.BurstablePerformanceSupported),
		CurrentGeneration: value(info.CurrentGeneration),
		Hibernation:       value(info.HibernationSupported),
	}
	if info.VCpuInfo != nil {
		f.VCPUs = int64(value(info.VCpuInfo.DefaultVCpus))
	}
	if info.MemoryInfo != nil {
		f.MemoryMiB = value(info.MemoryInfo.SizeInMiB)
	}
	all := catalog.CapacityTypes()
	for _, use := range info.SupportedUsageClasses {
		if slices.ContainsFunc(all[:], func(t catalog.CapacityType) bool { return t.Name == string(use) }) {
			f.CapacityTypes = append(f.CapacityTypes, string(use))
		}
	}
	slices.Sort(f.CapacityTypes)
	if info.PlacementGroupInfo != nil {
		for _, s := range info.PlacementGroupInfo.SupportedStrategies {
			f.PlacementStrategies = append(f.PlacementStrategies, string(s))
		}
	}
	processorFacts(&f, info.ProcessorInfo)
	networkFacts(&f, info.NetworkInfo)
	storageFacts(&f, info)
	deviceFacts(&f, info)
	return f, f.Arch != "" && f.VCPUs > 0 && f.MemoryMiB > 0
}

func value[T any](p *T) T {
	if p == nil {
		var none T
		return none
	}
	return *p
}

func processorFacts(f *catalog.Facts, info *ec2types.ProcessorInfo) {
	if info == nil {
		return
	}
	for _, a := range info.SupportedArchitectures {
		if arch, ok := awsv1.AWSToKubeArchitectures[string(a)]; ok && f.Arch == "" {
			f.Arch = arch
		}
	}
	f.CPUManufacturer = value(info.Manufacturer)
	f.ClockMHz = int64(math.Round(value(info.SustainedClockSpeedInGhz) * 1000))
	f.NestedVirtualization = slices.Contains(info.SupportedFeatures, ec2types.SupportedAdditionalProcessorFeatureNestedVirtualization)
}

func networkFacts(f *catalog.Facts, info *ec2types.NetworkInfo) {
	if info == nil {
		return
	}
	f.EncryptionInTransit = value(info.EncryptionInTransitSupported)
	f.IPv4PerENI = int64(value(info.Ipv4AddressesPerInterface))
	if info.EfaInfo != nil {
		f.EFAs = int64(value(info.EfaInfo.MaximumEfaInterfaces))
	}
	var gbps float64
	for _, card := range info.NetworkCards {
		gbps += value(card.BaselineBandwidthInGbps)
		index, enis := int64(value(card.NetworkCardIndex)), int64(value(card.MaximumNetworkInterfaces))
		f.NetworkCards = append(f.NetworkCards, catalog.NetworkCard{Index: index, ENIs: enis})
		if index == int64(value(info.DefaultNetworkCardIndex)) {
			f.ENIs = enis
		}
	}
	f.NetworkBandwidthMbps = int64(math.Round(gbps * 1000))
}

func storageFacts(f *catalog.Facts, info ec2types.InstanceTypeInfo) {
	if s := info.InstanceStorageInfo; s != nil {
		f.InstanceStoreGB = value(s.TotalSizeInGB)
		f.LocalNVMe = s.NvmeSupport != "" && s.NvmeSupport != ec2types.EphemeralNvmeSupportUnsupported
		for _, d := range s.Disks {
			f.Disks += int64(value(d.Count))
		}
	}
	e := info.EbsInfo
	if e == nil {
		return
	}
	if e.EbsOptimizedInfo != nil && e.EbsOptimizedSupport == ec2types.EbsOptimizedSupportDefault {
		f.EBSBandwidthMbps = int64(value(e.EbsOptimizedInfo.MaximumBandwidthInMbps))
	}
	f.EBSAttachments = int64(value(e.MaximumEbsAttachments))
	f.EBSDedicated = e.AttachmentLimitType == ec2types.AttachmentLimitTypeDedicated
}

func deviceFacts(f *catalog.Facts, info ec2types.InstanceTypeInfo) {
	if info.GpuInfo != nil {
		for _, g := range info.GpuInfo.Gpus {
			d := device(g.Name, g.Manufacturer, g.Count)
			if g.MemoryInfo != nil {
				d.MemoryMiB = int64(value(g.MemoryInfo.SizeInMiB))
			}
			f.GPUs = append(f.GPUs, d)
		}
	}
	if info.InferenceAcceleratorInfo != nil {
		for _, a := range info.InferenceAcceleratorInfo.Accelerators {
			f.Accelerators = append(f.Accelerators, device(a.Name, a.Manufacturer, a.Count))
		}
	}
	if info.NeuronInfo != nil {
		for _, n := range info.NeuronInfo.NeuronDevices {
			d := device(n.Name, nil, n.Count)
			if n.CoreInfo != nil {
				d.Cores = int64(value(n.CoreInfo.Count))
			}
			f.Neuron = append(f.Neuron, d)
		}
	}
}

func device(name, manufacturer *string, count *int32) catalog.Device {
	return catalog.Device{Name: strings.TrimSpace(value(name)), Manufacturer: value(manufacturer), Count: int64(value(count))}
}

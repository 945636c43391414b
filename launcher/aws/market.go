package aws

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// fetchFacts asks EC2 for the instance types that Linux nodes can use, with the zones they are offered in.
func (c *Cloud) fetchFacts(ctx context.Context) (map[string]catalog.Facts, error) {
	zones, err := c.fetchZones(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]catalog.Facts{}
	pages := ec2.NewDescribeInstanceTypesPaginator(c.ec2, &ec2.DescribeInstanceTypesInput{
		MaxResults: awssdk.Int32(100),
		Filters: []ec2types.Filter{
			filter("supported-virtualization-type", "hvm"),
			filter("processor-info.supported-architecture", "x86_64", "arm64"),
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing instance types: %w", err)
		}
		for _, info := range page.InstanceTypes {
			if f, ok := factsOf(info); ok && len(zones[f.Name]) > 0 {
				f.Zones = zones[f.Name]
				out[f.Name] = f
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("EC2 tells no instance type for region %s", c.cfg.AWS.Region)
	}
	return out, nil
}

// fetchZones returns the zones in which each instance type is offered, sorted.
func (c *Cloud) fetchZones(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(c.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: ec2types.LocationTypeAvailabilityZone, MaxResults: awssdk.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing instance type offerings: %w", err)
		}
		for _, o := range page.InstanceTypeOfferings {
			name := string(o.InstanceType)
			out[name] = append(out[name], awssdk.ToString(o.Location))
		}
	}
	for _, zones := range out {
		slices.Sort(zones)
	}
	return out, nil
}

// factsOf reads what EC2 tells of an instance type; not ok without an architecture that Kubernetes has.
func factsOf(info ec2types.InstanceTypeInfo) (catalog.Facts, bool) {
	f := catalog.Facts{
		Name:              string(info.InstanceType),
		Hypervisor:        string(info.Hypervisor),
		BareMetal:         awssdk.ToBool(info.BareMetal),
		Burstable:         awssdk.ToBool(info.BurstablePerformanceSupported),
		CurrentGeneration: awssdk.ToBool(info.CurrentGeneration),
	}
	if info.VCpuInfo != nil {
		f.VCPUs = int64(awssdk.ToInt32(info.VCpuInfo.DefaultVCpus))
	}
	if info.MemoryInfo != nil {
		f.MemoryMiB = awssdk.ToInt64(info.MemoryInfo.SizeInMiB)
	}
	for _, use := range info.SupportedUsageClasses {
		if use == ec2types.UsageClassTypeSpot || use == ec2types.UsageClassTypeOnDemand {
			f.CapacityTypes = append(f.CapacityTypes, string(use))
		}
	}
	slices.Sort(f.CapacityTypes)
	processorFacts(&f, info.ProcessorInfo)
	networkFacts(&f, info.NetworkInfo)
	storageFacts(&f, info)
	deviceFacts(&f, info)
	return f, f.Arch != "" && f.VCPUs > 0 && f.MemoryMiB > 0
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
	f.CPUManufacturer = awssdk.ToString(info.Manufacturer)
	f.ClockMHz = int64(math.Round(awssdk.ToFloat64(info.SustainedClockSpeedInGhz) * 1000))
}

func networkFacts(f *catalog.Facts, info *ec2types.NetworkInfo) {
	if info == nil {
		return
	}
	f.EncryptionInTransit = awssdk.ToBool(info.EncryptionInTransitSupported)
	f.IPv4PerENI = int64(awssdk.ToInt32(info.Ipv4AddressesPerInterface))
	var gbps float64
	for _, card := range info.NetworkCards {
		gbps += awssdk.ToFloat64(card.BaselineBandwidthInGbps)
		if awssdk.ToInt32(card.NetworkCardIndex) == awssdk.ToInt32(info.DefaultNetworkCardIndex) {
			f.ENIs = int64(awssdk.ToInt32(card.MaximumNetworkInterfaces))
		}
	}
	f.NetworkBandwidthMbps = int64(math.Round(gbps * 1000))
}

func storageFacts(f *catalog.Facts, info ec2types.InstanceTypeInfo) {
	if s := info.InstanceStorageInfo; s != nil {
		f.InstanceStoreGB = awssdk.ToInt64(s.TotalSizeInGB)
		f.LocalNVMe = s.NvmeSupport != "" && s.NvmeSupport != ec2types.EphemeralNvmeSupportUnsupported
	}
	if e := info.EbsInfo; e != nil && e.EbsOptimizedInfo != nil && e.EbsOptimizedSupport == ec2types.EbsOptimizedSupportDefault {
		f.EBSBandwidthMbps = int64(awssdk.ToInt32(e.EbsOptimizedInfo.MaximumBandwidthInMbps))
	}
}

func deviceFacts(f *catalog.Facts, info ec2types.InstanceTypeInfo) {
	if info.GpuInfo != nil {
		for _, g := range info.GpuInfo.Gpus {
			d := device(g.Name, g.Manufacturer, g.Count)
			if g.MemoryInfo != nil {
				d.MemoryMiB = int64(awssdk.ToInt32(g.MemoryInfo.SizeInMiB))
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
				d.Cores = int64(awssdk.ToInt32(n.CoreInfo.Count))
			}
			f.Neuron = append(f.Neuron, d)
		}
	}
}

func device(name, manufacturer *string, count *int32) catalog.Device {
	return catalog.Device{
		Name: strings.TrimSpace(awssdk.ToString(name)), Manufacturer: awssdk.ToString(manufacturer),
		Count: int64(awssdk.ToInt32(count)),
	}
}

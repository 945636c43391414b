package fromec2

import (
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func TestFacts(t *testing.T) {
	info := ec2types.InstanceTypeInfo{
		InstanceType: "p4d.24xlarge", Hypervisor: ec2types.InstanceTypeHypervisorNitro, CurrentGeneration: new(true),
		SupportedUsageClasses: []ec2types.UsageClassType{"spot", "on-demand", "capacity-block"},
		VCpuInfo:              &ec2types.VCpuInfo{DefaultVCpus: new(int32(96))},
		MemoryInfo:            &ec2types.MemoryInfo{SizeInMiB: new(int64(1179648))},
		ProcessorInfo: &ec2types.ProcessorInfo{
			Manufacturer: new("Intel"), SustainedClockSpeedInGhz: new(3.0),
			SupportedArchitectures: []ec2types.ArchitectureType{"i386", "x86_64"},
		},
		NetworkInfo: &ec2types.NetworkInfo{
			EfaInfo: &ec2types.EfaInfo{MaximumEfaInterfaces: new(int32(4))}, EncryptionInTransitSupported: new(true), Ipv4AddressesPerInterface: new(int32(50)), DefaultNetworkCardIndex: new(int32(0)),
			NetworkCards: []ec2types.NetworkCardInfo{
				{NetworkCardIndex: new(int32(0)), MaximumNetworkInterfaces: new(int32(15)), BaselineBandwidthInGbps: new(100.0)},
				{NetworkCardIndex: new(int32(1)), MaximumNetworkInterfaces: new(int32(15)), BaselineBandwidthInGbps: new(100.0)},
			},
		},
		InstanceStorageInfo: &ec2types.InstanceStorageInfo{TotalSizeInGB: new(int64(8000)), NvmeSupport: "required", Disks: []ec2types.DiskInfo{{Count: new(int32(8))}}},
		EbsInfo: &ec2types.EbsInfo{
			AttachmentLimitType: ec2types.AttachmentLimitTypeShared, MaximumEbsAttachments: new(int32(27)),
			EbsOptimizedSupport: "default", EbsOptimizedInfo: &ec2types.EbsOptimizedInfo{MaximumBandwidthInMbps: new(int32(19000))},
		},
		GpuInfo: &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
			Name: new("A100"), Manufacturer: new("NVIDIA"), Count: new(int32(8)),
			MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: new(int32(40960))},
		}}},
	}
	got, ok := Facts(info)
	want := catalog.Facts{
		Name: "p4d.24xlarge", Arch: "amd64", VCPUs: 96, MemoryMiB: 1179648, Hypervisor: "nitro", CurrentGeneration: true,
		EncryptionInTransit: true, CPUManufacturer: "Intel", ClockMHz: 3000, ENIs: 15, IPv4PerENI: 50,
		NetworkCards: []catalog.NetworkCard{{Index: 0, ENIs: 15}, {Index: 1, ENIs: 15}},
		EFAs:         4, EBSAttachments: 27, InstanceStoreGB: 8000, Disks: 8, LocalNVMe: true, EBSBandwidthMbps: 19000, NetworkBandwidthMbps: 200000,
		GPUs:          []catalog.Device{{Name: "A100", Manufacturer: "NVIDIA", Count: 8, MemoryMiB: 40960}},
		CapacityTypes: []string{"on-demand", "spot"},
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("%v (-want +got):\n%s", ok, diff)
	}
	if f, ok := Facts(ec2types.InstanceTypeInfo{InstanceType: "mac1.metal"}); ok {
		t.Errorf("a type of which EC2 tells nothing: %+v", f)
	}
}

// A family is returned for any alias: Karpenter's own function ends the process.
func TestFamily(t *testing.T) {
	for alias, want := range map[string]struct {
		family, version string
		valid           bool
	}{
		"al2023@latest":      {"AL2023", "latest", true},
		"bottlerocket@v1.20": {"Bottlerocket", "v1.20", true},
		"windows2022@latest": {"Windows2022", "latest", true},
		"al2024@latest":      {"al2024", "latest", false},
		"al2023":             {"AL2023", "", false},
		"al2023@a@b":         {"AL2023", "a@b", false},
		"@":                  {"", "", false},
	} {
		class := &awsv1.EC2NodeClass{}
		class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: "ami-1"}, {Alias: alias}}
		family, version, ok := Alias(class)
		if !ok || family != want.family || version != want.version || AliasValid(class) != want.valid || Family(class) != want.family {
			t.Errorf("%s: %s %s, valid %v, family %s", alias, family, version, AliasValid(class), Family(class))
		}
	}
	if family := Family(&awsv1.EC2NodeClass{}); family != catalog.FamilyCustom {
		t.Errorf("without an alias: %s", family)
	}
	given := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMIFamily: new("AL2")}}
	if family := Family(given); family != catalog.FamilyAL2 || !AliasValid(given) {
		t.Errorf("spec.amiFamily: %s", family)
	}
}

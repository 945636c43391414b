package aws

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// The XML of an instance type in a response.
type (
	typeXML struct {
		Name         string           `xml:"instanceType"`
		Current      bool             `xml:"currentGeneration"`
		FreeTier     bool             `xml:"freeTierEligible"`
		Usage        wire.Set[string] `xml:"supportedUsageClasses"`
		Roots        wire.Set[string] `xml:"supportedRootDeviceTypes"`
		Virtual      wire.Set[string] `xml:"supportedVirtualizationTypes"`
		Metal        bool             `xml:"bareMetal"`
		Hypervisor   string           `xml:"hypervisor,omitempty"`
		Processor    processorXML     `xml:"processorInfo"`
		VCPU         vcpuXML          `xml:"vCpuInfo"`
		MemoryMiB    int64            `xml:"memoryInfo>sizeInMiB"`
		HasStorage   bool             `xml:"instanceStorageSupported"`
		Storage      *storageXML      `xml:"instanceStorageInfo"`
		EBS          ebsInfoXML       `xml:"ebsInfo"`
		Network      networkXML       `xml:"networkInfo"`
		GPU          *gpuXML          `xml:"gpuInfo"`
		Inference    *inferenceXML    `xml:"inferenceAcceleratorInfo"`
		Neuron       *neuronXML       `xml:"neuronInfo"`
		Strategies   wire.Set[string] `xml:"placementGroupInfo>supportedStrategies"`
		Hibernation  bool             `xml:"hibernationSupported"`
		Burstable    bool             `xml:"burstablePerformanceSupported"`
		Dedicated    bool             `xml:"dedicatedHostsSupported"`
		AutoRecovery bool             `xml:"autoRecoverySupported"`
		BootModes    wire.Set[string] `xml:"supportedBootModes"`
	}
	processorXML struct {
		Archs        wire.Set[string] `xml:"supportedArchitectures"`
		GHz          float64          `xml:"sustainedClockSpeedInGhz"`
		Manufacturer string           `xml:"manufacturer"`
	}
	vcpuXML struct {
		VCPUs   int `xml:"defaultVCpus"`
		Cores   int `xml:"defaultCores"`
		Threads int `xml:"defaultThreadsPerCore"`
	}
	storageXML struct {
		GB         int               `xml:"totalSizeInGB"`
		Disks      wire.Set[diskXML] `xml:"disks"`
		NVMe       string            `xml:"nvmeSupport"`
		Encryption string            `xml:"encryptionSupport"`
	}
	diskXML struct {
		GB    int    `xml:"sizeInGB"`
		Count int    `xml:"count"`
		Type  string `xml:"type"`
	}
	ebsInfoXML struct {
		Optimized  string          `xml:"ebsOptimizedSupport"`
		Encryption string          `xml:"encryptionSupport"`
		Info       ebsOptimizedXML `xml:"ebsOptimizedInfo"`
		NVMe       string          `xml:"nvmeSupport"`
	}
	ebsOptimizedXML struct {
		Baseline   int     `xml:"baselineBandwidthInMbps"`
		BaselineMB float64 `xml:"baselineThroughputInMBps"`
		Maximum    int     `xml:"maximumBandwidthInMbps"`
		MaximumMB  float64 `xml:"maximumThroughputInMBps"`
	}
	networkXML struct {
		Performance string            `xml:"networkPerformance"`
		Interfaces  int               `xml:"maximumNetworkInterfaces"`
		CardCount   int               `xml:"maximumNetworkCards"`
		DefaultCard int               `xml:"defaultNetworkCardIndex"`
		Cards       wire.Set[cardXML] `xml:"networkCards"`
		IPv4        int               `xml:"ipv4AddressesPerInterface"`
		IPv6        int               `xml:"ipv6AddressesPerInterface"`
		IPv6Support bool              `xml:"ipv6Supported"`
		ENA         string            `xml:"enaSupport"`
		EFA         bool              `xml:"efaSupported"`
		EFAInfo     *efaXML           `xml:"efaInfo"`
		Encrypted   bool              `xml:"encryptionInTransitSupported"`
	}
	efaXML struct {
		Interfaces int `xml:"maximumEfaInterfaces"`
	}
	cardXML struct {
		Index       int64   `xml:"networkCardIndex"`
		Performance string  `xml:"networkPerformance"`
		Interfaces  int64   `xml:"maximumNetworkInterfaces"`
		Baseline    float64 `xml:"baselineBandwidthInGbps"`
		Peak        float64 `xml:"peakBandwidthInGbps"`
	}
	gpuXML struct {
		GPUs      wire.Set[gpuDeviceXML] `xml:"gpus"`
		MemoryMiB int                    `xml:"totalGpuMemoryInMiB"`
	}
	gpuDeviceXML struct {
		Name         string `xml:"name"`
		Manufacturer string `xml:"manufacturer"`
		Count        int    `xml:"count"`
		MemoryMiB    int    `xml:"memoryInfo>sizeInMiB"`
	}
	inferenceXML struct {
		Accelerators acceleratorSet `xml:"accelerators"`
		MemoryMiB    int            `xml:"totalInferenceMemoryInMiB"`
	}
	// acceleratorSet is a list whose members are not called item.
	acceleratorSet struct {
		Members []gpuDeviceXML `xml:"member"`
	}
	neuronXML struct {
		Devices   wire.Set[neuronDeviceXML] `xml:"neuronDevices"`
		MemoryMiB int                       `xml:"totalNeuronDeviceMemoryInMiB"`
	}
	neuronDeviceXML struct {
		Count     int    `xml:"count"`
		Name      string `xml:"name"`
		Cores     int    `xml:"coreInfo>count"`
		Version   int    `xml:"coreInfo>version"`
		MemoryMiB int    `xml:"memoryInfo>sizeInMiB"`
	}
)

func (s *Server) describeInstanceTypes(_ context.Context, r request) (any, error) {
	page, next, err := listOf[instancetypes.Type]{
		items: s.offeredTypes(), key: func(t instancetypes.Type) string { return t.Name }, idParam: "InstanceType",
		notFound: func(name string) error {
			return wire.Errorf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		},
		attributes: typeAttributes,
		pages:      wire.Pages{Min: 5, Max: 100, Default: 100},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	out := struct {
		Set  wire.Set[typeXML] `xml:"instanceTypeSet"`
		Next string            `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, t := range page {
		out.Set.Items = append(out.Set.Items, typeShape(t))
	}
	return out, nil
}

// offeredTypes returns the types that are offered in at least one zone of the region.
func (s *Server) offeredTypes() []instancetypes.Type {
	return slices.DeleteFunc(slices.Clone(s.table.All()), func(t instancetypes.Type) bool {
		return !slices.ContainsFunc(s.cfg.zones(), func(zone string) bool { return s.table.Offered(t.Name, zone) })
	})
}

func typeAttributes(t instancetypes.Type) wire.Attribute {
	hypervisor := "nitro"
	if t.Metal {
		hypervisor = ""
	}
	return func(name string) ([]string, bool) {
		if name == "supported-usage-class" {
			return []string{"on-demand", "spot"}, true
		}
		return fixed(map[string]string{
			"bare-metal":                                   yesNo(t.Metal),
			"burstable-performance-supported":              yesNo(t.Burstable),
			"current-generation":                           yesNo(!t.Previous),
			"ebs-info.ebs-optimized-support":               "default",
			"free-tier-eligible":                           yesNo(t.Name == "t3.micro"),
			"hypervisor":                                   hypervisor,
			"instance-storage-info.nvme-support":           nvme(t),
			"instance-storage-supported":                   yesNo(t.Disks.Count > 0),
			"instance-type":                                t.Name,
			"memory-info.size-in-mib":                      strconv.FormatInt(t.MemoryMiB, 10),
			"network-info.efa-supported":                   yesNo(t.EFAs > 0),
			"network-info.encryption-in-transit-supported": yesNo(t.Encrypted),
			"processor-info.supported-architecture":        t.Arch,
			"processor-info.sustained-clock-speed-in-ghz":  strconv.FormatFloat(t.GHz, 'g', -1, 64),
			"supported-boot-mode":                          "uefi",
			"supported-root-device-type":                   "ebs",
			"supported-virtualization-type":                "hvm",
			"vcpu-info.default-cores":                      strconv.Itoa(t.Cores),
			"vcpu-info.default-threads-per-core":           strconv.Itoa(t.VCPUs / t.Cores),
			"vcpu-info.default-vcpus":                      strconv.Itoa(t.VCPUs),
		})(name)
	}
}

// strategies are those of placement groups that a type supports: burstable types are in no cluster group.
func strategies(t instancetypes.Type) []string {
	if t.Burstable {
		return []string{"partition", "spread"}
	}
	return []string{"cluster", "partition", "spread"}
}

func nvme(t instancetypes.Type) string {
	if t.Disks.Count > 0 {
		return "required"
	}
	return "unsupported"
}

func typeShape(t instancetypes.Type) typeXML {
	out := typeXML{
		Name: t.Name, Current: !t.Previous, FreeTier: t.Name == "t3.micro", Usage: wire.NewSet("on-demand", "spot"),
		Roots: wire.NewSet("ebs"), Virtual: wire.NewSet("hvm"), Metal: t.Metal, Hypervisor: "nitro",
		Processor: processorXML{wire.NewSet(t.Arch), t.GHz, t.Manufacturer},
		VCPU:      vcpuXML{t.VCPUs, t.Cores, t.VCPUs / t.Cores}, MemoryMiB: t.MemoryMiB,
		EBS: ebsInfoXML{"default", "supported", ebsOptimizedXML{
			t.EBSMbps, float64(t.EBSMbps) / 8, t.EBSMbps, float64(t.EBSMbps) / 8,
		}, "required"},
		Network:    networkShape(t),
		Strategies: wire.NewSet(strategies(t)...), Hibernation: !t.Metal, Burstable: t.Burstable, Dedicated: !t.Burstable,
		AutoRecovery: t.Disks.Count == 0, BootModes: wire.NewSet("uefi"),
	}
	if t.Metal {
		out.Hypervisor = ""
	}
	if d := t.Disks; d.Count > 0 {
		out.HasStorage = true
		out.Storage = &storageXML{d.Count * d.GB, wire.NewSet(diskXML{d.GB, d.Count, d.Kind}), "required", "required"}
	}
	a := t.Accelerators
	device := gpuDeviceXML{a.Name, a.Manufacturer, a.Count, a.MemoryMiB}
	switch {
	case a.Count == 0:
	case a.Kind == instancetypes.GPU:
		out.GPU = &gpuXML{wire.NewSet(device), a.Count * a.MemoryMiB}
	default:
		out.Neuron = &neuronXML{
			wire.NewSet(neuronDeviceXML{a.Count, a.Name, a.Cores, 2, a.MemoryMiB}), a.Count * a.MemoryMiB,
		}
		if t.Family == "inf2" {
			out.Inference = &inferenceXML{acceleratorSet{[]gpuDeviceXML{device}}, a.Count * a.MemoryMiB}
		}
	}
	return out
}

// networkShape spreads the bandwidth over the cards.
func networkShape(t instancetypes.Type) networkXML {
	limits := t.Limits
	out := networkXML{
		CardCount: len(limits.NetworkCards), DefaultCard: limits.DefaultNetworkCardIndex, Interfaces: limits.Interface,
		IPv4: limits.IPv4PerInterface, IPv6: limits.IPv4PerInterface, IPv6Support: true, ENA: "required", EFA: t.EFAs > 0,
		Encrypted: t.Encrypted,
	}
	if t.EFAs > 0 {
		out.EFAInfo = &efaXML{t.EFAs}
	}
	cards := float64(max(1, len(limits.NetworkCards)))
	performance := gigabits(t.NetworkGbps/cards, t.PeakGbps/cards)
	out.Performance = performance
	if cards > 1 {
		out.Performance = fmt.Sprintf("%gx %s", cards, performance)
	}
	for _, card := range limits.NetworkCards {
		out.Cards.Items = append(out.Cards.Items, cardXML{
			card.NetworkCardIndex, performance, card.MaximumNetworkInterfaces, t.NetworkGbps / cards, t.PeakGbps / cards,
		})
	}
	return out
}

func gigabits(baseline, peak float64) string {
	if peak > baseline {
		return fmt.Sprintf("Up to %g Gigabit", peak)
	}
	return fmt.Sprintf("%g Gigabit", baseline)
}

type offeringXML struct {
	Type         string `xml:"instanceType"`
	LocationType string `xml:"locationType"`
	Location     string `xml:"location"`
}

func (s *Server) describeInstanceTypeOfferings(_ context.Context, r request) (any, error) {
	kind := r.Params.Get("LocationType")
	var found []offeringXML
	switch kind {
	case "", "region":
		for _, t := range s.offeredTypes() {
			found = append(found, offeringXML{t.Name, "region", s.cfg.Region})
		}
	case "availability-zone", "availability-zone-id":
		for _, t := range s.table.All() {
			for _, n := range s.resources.Subnets {
				location := n.Zone
				if kind == "availability-zone-id" {
					location = n.ZoneID
				}
				if s.table.Offered(t.Name, n.Zone) {
					found = append(found, offeringXML{t.Name, kind, location})
				}
			}
		}
	default:
		return nil, wire.Errorf("InvalidParameterValue", "The location type '%s' is not valid", kind)
	}
	page, next, err := listOf[offeringXML]{
		items: found, key: func(o offeringXML) string { return o.Type + "/" + o.Location },
		attributes: func(o offeringXML) wire.Attribute {
			return fixed(map[string]string{"location": o.Location, "instance-type": o.Type})
		},
		pages: wire.Pages{Min: 5, Max: 1000, Default: 1000},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	return struct {
		Set  wire.Set[offeringXML] `xml:"instanceTypeOfferingSet"`
		Next string                `xml:"nextToken,omitempty"`
	}{wire.NewSet(page...), next}, nil
}

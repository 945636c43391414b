package catalog

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The extended resources that an instance type may have.
const (
	ResourceNVIDIAGPU  corev1.ResourceName = "nvidia.com/gpu"
	ResourceAMDGPU     corev1.ResourceName = "amd.com/gpu"
	ResourceGaudi      corev1.ResourceName = "habana.ai/gaudi"
	ResourceNeuron     corev1.ResourceName = "aws.amazon.com/neuron"
	ResourceNeuronCore corev1.ResourceName = "aws.amazon.com/neuroncore"
	ResourcePodENI     corev1.ResourceName = "vpc.amazonaws.com/pod-eni"
	ResourceEFA        corev1.ResourceName = "vpc.amazonaws.com/efa"
)

const (
	// vmOverhead is the share of the advertised memory that firmware and kernel use: Karpenter's default for VM_MEMORY_OVERHEAD_PERCENT.
	vmOverhead = 0.075
	// armCMAMiB is the memory that the kernel reserves for contiguous allocation on Graviton.
	armCMAMiB = 64
	// podsWithoutENI is the kubelet's own default of maxPods.
	podsWithoutENI = 110
)

// New computes what a node of an instance type, launched from a class, offers to pods. It returns an error that names the field if a
// quantity of the class cannot be parsed. The caller adds the offerings, whose prices include Charges.AddTo, and the region's label.
func New(f Facts, class NodeClass) (InstanceType, error) {
	capacity := Capacity(f, class)
	allocatable, err := Allocatable(f, class, capacity)
	if err != nil {
		return InstanceType{}, err
	}
	labels := Labels(f, class.AMIFamily)
	if class.PlacementGroup.ID != "" {
		labels[LabelPlacementGroupID] = class.PlacementGroup.ID
	}
	return InstanceType{
		Name: f.Name, Labels: labels, Partitions: class.PlacementGroup.Partitions, Capacity: capacity, Allocatable: allocatable,
		VolumeAttachments: VolumeAttachments(f, class),
		Charges:           charges(f, class),
	}, nil
}

// Capacity returns what the kubelet is expected to report as capacity: CPU, memory less the VM's overhead, the file
// system for the kubelet's and containerd's files, pods, and extended resources that are not zero.
func Capacity(f Facts, class NodeClass) corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(f.VCPUs, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memoryBytes(f, class), resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(storageBytes(f, class), resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(MaxPods(f, class), resource.DecimalSI),
	}
	add := func(name corev1.ResourceName, n int64) {
		if n > 0 {
			out[name] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	for maker, name := range map[string]corev1.ResourceName{
		"NVIDIA": ResourceNVIDIAGPU, "AMD": ResourceAMDGPU, "Habana": ResourceGaudi,
	} {
		var n int64
		for _, g := range f.GPUs {
			if strings.EqualFold(g.Manufacturer, maker) {
				n += g.Count
			}
		}
		add(name, n)
	}
	var devices, cores int64
	for _, d := range f.Neuron {
		devices, cores = devices+d.Count, cores+d.Count*d.Cores
	}
	add(ResourceNeuron, devices)
	add(ResourceNeuronCore, cores)
	if isWindows(class.AMIFamily) {
		add(ResourcePrivateIPv4, privateIPv4(f)) // And no interface of a pod's own: the EKS user guide excludes them on Windows.
	} else {
		add(ResourcePodENI, branchENIs(f.Name))
	}
	add(ResourceEFA, efas(f, class))
	return out
}

// memoryBytes returns the memory that nodes of the type and AMI have reported. Before the first report it returns the advertised memory less
// Graviton's contiguous memory and the VM's overhead, rounded down to MiB.
func memoryBytes(f Facts, class NodeClass) int64 {
	computed := computedMemory(f, class)
	if n, ok := class.Learned[f.Name].memory(computed); ok {
		return min(n, f.MemoryMiB<<20)
	}
	return computed
}

func computedMemory(f Facts, class NodeClass) int64 {
	mib := f.MemoryMiB
	if f.Arch == "arm64" {
		mib -= armCMAMiB
	}
	share := vmOverhead
	if class.MemoryOverhead != nil {
		share = *class.MemoryOverhead
	}
	return max(mib-int64(math.Ceil(float64(mib)*share)), 0) << 20
}

// efas returns the number of Elastic Fabric Adapters that a node can have: those of the class's spec.networkInterfaces, or all that the type
// supports if the class names no interfaces.
func efas(f Facts, class NodeClass) (n int64) {
	if len(class.NetworkInterfaces) == 0 {
		return f.EFAs
	}
	for _, i := range class.NetworkInterfaces {
		if i.EFAOnly {
			n++
		}
	}
	return n
}

// storageBytes returns the size that the kubelet will report of the file system with its own and containerd's files. It is a lower bound,
// since a pod planned onto more is rejected. It is that of the joined local disks if the class requests RAID0, which Windows does not have, and the type
// has NVMe disks, less 1% for RAID and XFS; otherwise that of the root volume. The EKS AMIs join no other disks, such as those of d2 and h1
// (amazon-eks-ami, templates/shared/runtime/bin/setup-local-disks: /dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_*).
func storageBytes(f Facts, class NodeClass) int64 {
	if class.RAID0 && f.LocalNVMe && !isWindows(class.AMIFamily) {
		return f.InstanceStoreGB * 1e9 / 100 * 99
	}
	return fileSystemBytes(rootVolumeBytes(class), class.AMIFamily)
}

// fileSystemBytes returns the size of the file system on a volume. On AL2023, partition table, EFI partition and XFS take 76 MiB for any
// size (20 GiB are reported as 20893676Ki, 100 GiB as 104779756Ki). With ext4, which older Bottlerocket versions have and a custom AMI may
// have, inodes take 1.65% (20 GiB are reported as 20624592Ki). The same is taken off for Windows, whose recovery partition is smaller.
func fileSystemBytes(volume int64, family string) int64 {
	if family == FamilyBottlerocket || family == FamilyCustom || isWindows(family) {
		volume -= volume / 50
	}
	return max(volume-100<<20, 0)
}

// rootVolumeBytes returns the size of the volume that the class marks or names as root, or else the default.
func rootVolumeBytes(class NodeClass) int64 {
	for _, d := range class.BlockDevices {
		if d.Root && d.SizeBytes > 0 {
			return d.SizeBytes
		}
	}
	root := RootDevice(class.AMIFamily)
	for _, d := range class.BlockDevices {
		if d.DeviceName == root && d.SizeBytes > 0 {
			return d.SizeBytes
		}
	}
	// The root device of a custom AMI is unknown: as in Karpenter, the last volume counts.
	if n := len(class.BlockDevices); class.AMIFamily == FamilyCustom && n > 0 && class.BlockDevices[n-1].SizeBytes > 0 {
		return class.BlockDevices[n-1].SizeBytes
	}
	return defaultVolumeBytes(class.AMIFamily)
}

// MaxPods returns the number of pods that the kubelet will report: spec.kubelet.maxPods, or the ENI formula without the ENIs that are
// reserved or carry no IP traffic; on Windows, whose addresses are a resource of their own (ResourcePrivateIPv4), the kubelet's default. If podsPerCore is set, it is at most podsPerCore per vCPU (Bottlerocket has no such setting).
func MaxPods(f Facts, class NodeClass) int64 {
	withheld := class.ReservedENIs
	for _, i := range class.NetworkInterfaces {
		if i.EFAOnly && i.Card == 0 {
			withheld++
		}
	}
	n := eniPods(f, withheld)
	if isWindows(class.AMIFamily) {
		n = podsWithoutENI
	}
	if class.MaxPods != nil {
		n = int64(*class.MaxPods)
	}
	if class.PodsPerCore != nil && *class.PodsPerCore > 0 && class.AMIFamily != FamilyBottlerocket {
		n = min(n, int64(*class.PodsPerCore)*f.VCPUs)
	}
	return n
}

// ENIPods returns the number of pods to which the VPC CNI can assign addresses without prefixes: ENIs * (IPv4 per ENI - 1) + 2. The 2 are
// the host-network pods aws-node and kube-proxy (amazon-eks-ami, templates/shared/runtime/eni-max-pods.txt). If EC2 returned no limits,
// those of the VPC resource controller's table are used; without either, the kubelet's default.
func ENIPods(f Facts) int64 { return eniPods(f, 0) }

// eniPods is ENIPods without some of the ENIs. If no ENI is left it returns 0, as in Karpenter: only host-network pods could run.
func eniPods(f Facts, withheld int64) int64 {
	enis, addresses := eniLimits(f)
	if enis == 0 || addresses == 0 {
		return podsWithoutENI
	}
	if enis -= withheld; enis <= 0 {
		return 0
	}
	return enis*(addresses-1) + 2
}

// eniLimits returns the number of ENIs of the default network card and of IPv4 addresses of each; zero if neither source has them.
func eniLimits(f Facts) (enis, addresses int64) {
	enis, addresses = f.ENIs, f.IPv4PerENI
	if limits := vpc.Limits[f.Name]; limits != nil && (enis == 0 || addresses == 0) {
		enis, addresses = int64(limits.Interface), int64(limits.IPv4PerInterface)
		for _, card := range limits.NetworkCards {
			if card.NetworkCardIndex == int64(limits.DefaultNetworkCardIndex) {
				enis = card.MaximumNetworkInterfaces
			}
		}
	}
	return enis, addresses
}

// branchENIs returns how many pods can have their own network interface (EKS user guide, "Assign security groups to individual Pods"). EC2's
// API does not return this number.
func branchENIs(name string) int64 {
	if limits := vpc.Limits[name]; limits != nil && limits.IsTrunkingCompatible {
		return int64(limits.BranchInterface)
	}
	return 0
}

// Allocatable returns capacity less kube-reserved, system-reserved and the hard eviction thresholds, and never less than zero (Kubernetes,
// "Reserve Compute Resources for System Daemons"). It returns no more than nodes have reported, as far as the reports are trusted.
func Allocatable(f Facts, class NodeClass, capacity corev1.ResourceList) (corev1.ResourceList, error) {
	out, err := afterReserves(f, class, capacity)
	CapPods(out)
	learned := class.Learned[f.Name]
	if err != nil || len(learned) == 0 {
		return out, err
	}
	class.Learned = nil
	computed, err := afterReserves(f, class, Capacity(f, class))
	if err != nil {
		return nil, err
	}
	for name, have := range out {
		if q, ok := learned.allocatable(name, computed[name]); ok && q.Cmp(have) < 0 {
			out[name] = q
		}
	}
	return out, nil
}

func afterReserves(f Facts, class NodeClass, capacity corev1.ResourceList) (corev1.ResourceList, error) {
	kube, err := kubeReserved(f, class, capacity)
	if err != nil {
		return nil, err
	}
	system, err := quantities("spec.kubelet.systemReserved", class.SystemReserved)
	if err != nil {
		return nil, err
	}
	eviction, err := evictionThresholds(class, capacity)
	if err != nil {
		return nil, err
	}
	out := capacity.DeepCopy()
	for _, reserved := range []corev1.ResourceList{kube, system, eviction} {
		for name, q := range reserved {
			have, ok := out[name]
			if !ok {
				continue
			}
			have.Sub(q)
			if have.Sign() < 0 {
				have = resource.Quantity{Format: have.Format}
			}
			out[name] = have
		}
	}
	return out, nil
}

// kubeReserved returns what the EKS AMIs reserve for kubelet and containerd: 6% of the first core, 1% of the second, 0.5% of the next two
// and 0.25% of the rest; 255 MiB of memory and 11 MiB per pod; 1 GiB of storage (amazon-eks-ami, nodeadm/internal/kubelet/config.go;
// Bottlerocket, schnauzer's kube_reserve helpers). The pods counted for memory are those of the ENI formula, whatever maxPods is; on
// Bottlerocket and Windows they are those of maxPods. Entries of spec.kubelet.kubeReserved replace the computed ones.
func kubeReserved(f Facts, class NodeClass, capacity corev1.ResourceList) (corev1.ResourceList, error) {
	pods := ENIPods(f)
	if class.AMIFamily == FamilyBottlerocket || isWindows(class.AMIFamily) {
		pods = capacity.Pods().Value()
	}
	out := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(reservedMilliCPU(f.VCPUs*1000), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity((255+11*pods)<<20, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(1<<30, resource.BinarySI),
	}
	own, err := quantities("spec.kubelet.kubeReserved", class.KubeReserved)
	maps.Copy(out, own)
	return out, err
}

func reservedMilliCPU(milli int64) int64 {
	// CPU shares are in hundredths of a percent, so that the sum is exact.
	var sum int64
	for _, step := range []struct{ from, to, share int64 }{
		{0, 1000, 600}, {1000, 2000, 100}, {2000, 4000, 50}, {4000, math.MaxInt64, 25},
	} {
		if milli > step.from {
			sum += (min(milli, step.to) - step.from) * step.share
		}
	}
	return sum / 10_000
}

// evictionThresholds returns the kubelet's hard eviction thresholds: 100 MiB of memory and 10% of the node's file system, or the values of
// spec.kubelet.evictionHard (Kubernetes, "Node-pressure Eviction"). Soft thresholds do not count.
func evictionThresholds(class NodeClass, capacity corev1.ResourceList) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for _, signal := range []struct {
		name, threshold string
		resource        corev1.ResourceName
	}{
		{"memory.available", "100Mi", corev1.ResourceMemory},
		{"nodefs.available", "10%", corev1.ResourceEphemeralStorage},
	} {
		threshold := signal.threshold
		if v, ok := class.EvictionHard[signal.name]; ok {
			threshold = v
		}
		q, err := evictionQuantity(threshold, capacity[signal.resource])
		if err != nil {
			return nil, fmt.Errorf("spec.kubelet.evictionHard[%s]: %w", signal.name, err)
		}
		out[signal.resource] = q
	}
	return out, nil
}

// evictionQuantity parses a threshold: a quantity, or a percentage of the capacity; 100% disables the threshold.
func evictionQuantity(threshold string, capacity resource.Quantity) (resource.Quantity, error) {
	text, percent := strings.CutSuffix(threshold, "%")
	if !percent {
		q, err := resource.ParseQuantity(threshold)
		if err != nil {
			return q, fmt.Errorf("%q is neither a quantity nor a percentage", threshold)
		}
		return q, nil
	}
	p, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(p) || p < 0 || p > 100 {
		return resource.Quantity{}, fmt.Errorf("%q is not a percentage between 0%% and 100%%", threshold)
	}
	if p == 100 {
		p = 0
	}
	return *resource.NewQuantity(int64(math.Ceil(float64(capacity.Value())/100*p)), resource.BinarySI), nil
}

func quantities(field string, in map[string]string) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for name, text := range in {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s[%s]: %q is not a quantity", field, name, text)
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}

package sim

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// privateIPv4 is the resource that the VPC resource controller of EKS reports on Windows nodes: the addresses of the one network interface
// that pods can have.
const privateIPv4 corev1.ResourceName = "vpc.amazonaws.com/PrivateIPv4Address"

// usualPods is the kubelet's default of maxPods.
const usualPods = 110

// size is the capacity of a machine and what its kubelet leaves to pods.
type size struct {
	capacity, allocatable corev1.ResourceList
}

// sizeOf computes capacity and allocatable as the kubelet of an EKS image does. The kubelet sees less memory than EC2
// advertises. It reserves what the image's boot agent or the user data set.
func sizeOf(m instance.Instance, cfg userdata.Config) (size, error) {
	pods := m.PodLimit
	if m.Windows {
		pods = usualPods // The addresses are a resource of their own.
	}
	if cfg.MaxPods > 0 {
		pods = cfg.MaxPods
	}
	if cfg.PodsPerCore > 0 {
		pods = min(pods, cfg.PodsPerCore*m.CPUs)
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(m.CPUs, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(m.SeenMemory(), resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(seenStorage(m, cfg), resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
		"hugepages-1Gi":                 *resource.NewQuantity(0, resource.DecimalSI),
		"hugepages-2Mi":                 *resource.NewQuantity(0, resource.DecimalSI),
	}
	if m.Windows {
		capacity[privateIPv4] = *resource.NewQuantity(m.InterfaceAddresses-1, resource.DecimalSI)
	}
	reserved, err := reservations(m, cfg, capacity)
	if err != nil {
		return size{}, err
	}
	allocatable := capacity.DeepCopy()
	for name, r := range reserved {
		left := allocatable[name]
		left.Sub(r)
		if left.Sign() < 0 {
			left = *resource.NewQuantity(0, left.Format)
		}
		allocatable[name] = left
	}
	return size{capacity: capacity, allocatable: allocatable}, nil
}

// seenStorage returns the capacity of the file system that holds pods' ephemeral storage: the root volume's, or half a
// percent less than the local disks.
func seenStorage(m instance.Instance, cfg userdata.Config) int64 {
	if cfg.InstanceStore && m.InstanceStoreGiB > 0 {
		return m.InstanceStoreGiB * gib / 1000 * 995
	}
	return m.SeenRootVolume()
}

// reservations returns what the kubelet withholds of each resource: kube-reserved and system-reserved, and the hard eviction
// thresholds of memory and node file system.
func reservations(m instance.Instance, cfg userdata.Config, capacity corev1.ResourceList) (corev1.ResourceList, error) {
	// The boot agents' defaults. User data replaces them key by key. For memory, nodeadm counts the pods that the network
	// interfaces allow, regardless of maxPods. Bottlerocket counts maxPods, and so does Karpenter for Windows.
	pods := m.PodLimit
	if cfg.Bottlerocket || m.Windows {
		pods = capacity.Pods().Value()
	}
	kube := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(m.ReservedMilliCPU(), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity((255+11*pods)*mib, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(gib, resource.BinarySI),
	}
	if err := parseInto(kube, "kubeReserved", cfg.KubeReserved); err != nil {
		return nil, err
	}
	system := corev1.ResourceList{}
	if err := parseInto(system, "systemReserved", cfg.SystemReserved); err != nil {
		return nil, err
	}
	for name, q := range system {
		sum := kube[name]
		sum.Add(q)
		kube[name] = sum
	}
	for signal, of := range map[string]struct {
		name    corev1.ResourceName
		builtin string
	}{
		"memory.available": {corev1.ResourceMemory, "100Mi"},
		"nodefs.available": {corev1.ResourceEphemeralStorage, "10%"},
	} {
		text := of.builtin
		if own, ok := cfg.EvictionHard[signal]; ok {
			text = own
		}
		total := capacity[of.name]
		threshold, err := threshold(text, total.Value())
		if err != nil {
			return nil, fmt.Errorf("parsing evictionHard %s: %w", signal, err)
		}
		sum := kube[of.name]
		sum.Add(*resource.NewQuantity(threshold, resource.BinarySI))
		kube[of.name] = sum
	}
	return kube, nil
}

func parseInto(to corev1.ResourceList, field string, from map[string]string) error {
	for name, text := range from {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("parsing %s %s: %w", field, name, err)
		}
		to[corev1.ResourceName(name)] = q
	}
	return nil
}

// threshold returns an eviction threshold in bytes: a quantity, or a share of the capacity.
func threshold(text string, capacity int64) (int64, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return 0, err
		}
		if percent == 100 {
			return 0, nil // In the kubelet, this switches a threshold off.
		}
		return int64(percent / 100 * float64(capacity)), nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, err
	}
	return q.Value(), nil
}

package sim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func TestSize(t *testing.T) {
	large := instance.Instance{Type: "m5.large", Arch: "amd64", CPUs: 2, MemoryMiB: 8192, PodLimit: 29, InstanceStoreGiB: 400}
	cases := []struct {
		name                                       string
		machine                                    instance.Instance
		config                                     userdata.Config
		cpu, memory, storage, pods, capacityMemory string
	}{
		// 8192 - 3% - 200 MiB; less 255 + 29*11 + 100 MiB. 20 GiB - 76 MiB; less 10% and 1 GiB.
		{name: "defaults", machine: large, cpu: "1930m", memory: "7073Mi", storage: "18181888410", pods: "29", capacityMemory: "7747Mi"},
		{
			name: "what the user data says replaces", machine: large,
			config: userdata.Config{
				MaxPods: 110, PodsPerCore: 20, KubeReserved: map[string]string{"cpu": "100m"}, SystemReserved: map[string]string{"cpu": "100m", "memory": "100Mi"},
				EvictionHard: map[string]string{"memory.available": "10%", "nodefs.available": "100%"},
			},
			cpu: "1800m", memory: "6298Mi", storage: "19380Mi", pods: "40", capacityMemory: "7747Mi",
		},
		{
			name: "local disks", machine: large, config: userdata.Config{InstanceStore: true},
			cpu: "1930m", memory: "7073Mi", storage: "383540578996", pods: "29", capacityMemory: "7747Mi",
		},
		{
			name: "Bottlerocket reserves for maxPods", machine: large, config: userdata.Config{Bottlerocket: true, MaxPods: 10},
			cpu: "1930m", memory: "7282Mi", storage: "18181888410", pods: "10", capacityMemory: "7747Mi",
		},
		{
			name:    "more is reserved than there is",
			machine: instance.Instance{Type: "t3.nano", Arch: "amd64", CPUs: 2, MemoryMiB: 512, PodLimit: 4},
			config:  userdata.Config{KubeReserved: map[string]string{"memory": "1Gi"}},
			cpu:     "1930m", memory: "0Mi", storage: "18181888410", pods: "4", capacityMemory: "482Mi",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := sizeOf(c.machine, c.config)
			if err != nil {
				t.Fatal(err)
			}
			for what, pair := range map[string][2]string{
				"cpu":             {got.allocatable.Cpu().String(), c.cpu},
				"memory":          {mebibytes(got.allocatable.Memory().Value()), c.memory},
				"storage":         {got.allocatable.StorageEphemeral().String(), c.storage},
				"pods":            {got.allocatable.Pods().String(), c.pods},
				"capacity memory": {mebibytes(got.capacity.Memory().Value()), c.capacityMemory},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s %s, want %s", what, pair[0], pair[1])
				}
			}
		})
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%dMi", n/mib) }

func TestBadQuantities(t *testing.T) {
	for name, cfg := range map[string]userdata.Config{
		"kubeReserved":   {KubeReserved: map[string]string{"cpu": "much"}},
		"systemReserved": {SystemReserved: map[string]string{"cpu": "much"}},
		"evictionHard":   {EvictionHard: map[string]string{"memory.available": "much"}},
		"percentage":     {EvictionHard: map[string]string{"nodefs.available": "x%"}},
	} {
		if _, err := sizeOf(instance.Instance{CPUs: 2, MemoryMiB: 8192, PodLimit: 29}, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A pod is planned onto what the catalog promises, so no kubelet may offer less (R8).
func TestTheCatalogPromisesNoMoreThanTheKubeletReports(t *testing.T) {
	for _, m := range []instance.Instance{
		{Type: "t3.nano", Arch: "amd64", CPUs: 2, MemoryMiB: 512, PodLimit: 4},
		{Type: "t3.small", Arch: "amd64", CPUs: 2, MemoryMiB: 2048, PodLimit: 11},
		{Type: "t4g.medium", Arch: "arm64", CPUs: 2, MemoryMiB: 4096, PodLimit: 17},
		{Type: "c6a.large", Arch: "amd64", CPUs: 2, MemoryMiB: 4096, PodLimit: 29},
		{Type: "m7g.large", Arch: "arm64", CPUs: 2, MemoryMiB: 8192, PodLimit: 29},
		{Type: "i4i.large", Arch: "amd64", CPUs: 2, MemoryMiB: 16384, PodLimit: 29, InstanceStoreGiB: 435},
		{Type: "r5.2xlarge", Arch: "amd64", CPUs: 8, MemoryMiB: 65536, PodLimit: 58},
		{Type: "c7g.16xlarge", Arch: "arm64", CPUs: 64, MemoryMiB: 131072, PodLimit: 737},
		{Type: "m5.metal", Arch: "amd64", CPUs: 96, MemoryMiB: 393216, PodLimit: 737},
	} {
		for name, c := range map[string]struct {
			class  catalog.NodeClass
			config userdata.Config
		}{
			"AL2023":       {class: catalog.NodeClass{AMIFamily: catalog.FamilyAL2023}},
			"local disks":  {catalog.NodeClass{AMIFamily: catalog.FamilyAL2023, RAID0: true}, userdata.Config{InstanceStore: true}},
			"Bottlerocket": {catalog.NodeClass{AMIFamily: catalog.FamilyBottlerocket, MaxPods: new(int32(10))}, userdata.Config{Bottlerocket: true, MaxPods: 10}},
		} {
			promisesNoMore(t, m, c.class, c.config, name)
		}
	}
}

func promisesNoMore(t *testing.T, m instance.Instance, class catalog.NodeClass, config userdata.Config, name string) {
	t.Helper()
	got, err := sizeOf(m, config)
	if err != nil {
		t.Fatal(err)
	}
	// The ENIs are chosen so that the formula gives the pods: one interface with that many addresses.
	promised, err := catalog.New(catalog.Facts{
		Name: m.Type, Arch: m.Arch, VCPUs: m.CPUs, MemoryMiB: m.MemoryMiB, ENIs: 1, IPv4PerENI: m.PodLimit - 1,
		InstanceStoreGB: (m.InstanceStoreGiB*gib + 1e9 - 1) / 1e9, LocalNVMe: m.InstanceStoreGiB > 0,
	}, class)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		want, has := promised.Allocatable[r], got.allocatable[r]
		if want.Cmp(has) > 0 {
			t.Errorf("%s, %s: the catalog promises %s %s, the kubelet reports %s", m.Type, name, want.String(), r, has.String())
		}
	}
}

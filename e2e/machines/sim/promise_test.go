package sim

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
)

// Of every instance type that there is, and for classes of any settings, the catalog promises no more than the kubelet
// reports, and after the first node of the kind not less memory than it has.
func TestNoInstanceTypePromisesMoreThanItsKubeletReports(t *testing.T) {
	types, err := builtin.Types()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, of := range types {
		facts := of.Facts()
		for range 3 {
			class, config := someClass(random)
			checkPromise(t, facts, class, config)
		}
	}
}

// someClass is an EC2NodeClass as the catalog and as the machine read it.
func someClass(random *rand.Rand) (catalog.NodeClass, userdata.Config) {
	class, config := catalog.NodeClass{AMIFamily: catalog.FamilyAL2023}, userdata.Config{}
	switch random.IntN(4) {
	case 0:
		class.AMIFamily, config.Bottlerocket = catalog.FamilyBottlerocket, true
	case 1:
		class.AMIFamily = catalog.FamilyWindows2022
	}
	if random.IntN(3) == 0 {
		n := 5 + random.Int32N(250)
		class.MaxPods, config.MaxPods = &n, int64(n)
	}
	if random.IntN(4) == 0 && !config.Bottlerocket {
		n := 1 + random.Int32N(20)
		class.PodsPerCore, config.PodsPerCore = &n, int64(n)
	}
	if random.IntN(3) == 0 {
		class.SystemReserved = map[string]string{"cpu": "100m", "memory": "200Mi"}
		class.EvictionHard = map[string]string{"memory.available": "5%", "nodefs.available": "15%"}
		config.SystemReserved, config.EvictionHard = class.SystemReserved, class.EvictionHard
	}
	if random.IntN(3) == 0 {
		class.KubeReserved = map[string]string{"memory": "500Mi"}
		config.KubeReserved = class.KubeReserved
	}
	if random.IntN(3) == 0 {
		class.RAID0, config.InstanceStore = true, true
	}
	if class.MaxPods == nil && random.IntN(4) == 0 {
		class.ReservedENIs = 1
	}
	return class, config
}

func checkPromise(t *testing.T, facts catalog.Facts, class catalog.NodeClass, config userdata.Config) {
	t.Helper()
	machine := instance.Instance{
		Type: facts.Name, Arch: facts.Arch, CPUs: facts.VCPUs, MemoryMiB: facts.MemoryMiB, PodLimit: catalog.ENIPods(facts),
		InstanceStoreGiB: (facts.InstanceStoreGB*1e9 + gib - 1) / gib, // A machine has whole GiB.
	}
	if catalog.OS(class.AMIFamily) == corev1.Windows {
		machine.Windows, machine.RootVolumeGiB, config.InstanceStore = true, 50, false
	}
	if class.ReservedENIs > 0 {
		// The AMI counts all interfaces, so the launcher tells the kubelet.
		config.MaxPods = catalog.MaxPods(facts, class)
	}
	reported, err := sizeOf(machine, config)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		promised, err := catalog.New(facts, class)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
			want, has := promised.Allocatable[r], reported.allocatable[r]
			if want.Cmp(has) > 0 {
				t.Errorf("%s, %s, %+v: the catalog promises %s %s, the kubelet reports %s", facts.Name, when, class, want.String(), r, has.String())
			}
		}
		if when == "learned" && promised.Capacity.Memory().Cmp(*reported.capacity.Memory()) != 0 {
			t.Errorf("%s: %s of memory learned, the kubelet reports %s", facts.Name, promised.Capacity.Memory(), reported.capacity.Memory())
		}
	}
	check("unknown")
	class.Learned = map[string]catalog.Learned{facts.Name: {{MemoryBytes: reported.capacity.Memory().Value()}}}
	check("learned")
}

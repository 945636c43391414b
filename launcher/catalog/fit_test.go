package catalog

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func nitro(name string) Facts {
	return Facts{
		Name: name, Arch: "amd64", VCPUs: 2, MemoryMiB: 8192, Hypervisor: "nitro", ENIs: 3, IPv4PerENI: 10,
		NetworkCards: []NetworkCard{{Index: 0, ENIs: 3}},
	}
}

func TestSuits(t *testing.T) {
	xen, nested, efa := nitro("m4.large"), nitro("m8i.large"), nitro("p5.48xlarge")
	xen.Hypervisor, nested.NestedVirtualization = "xen", true
	efa.EFAs, efa.NetworkCards = 2, []NetworkCard{{Index: 0, ENIs: 2}, {Index: 1, ENIs: 2}}
	layout := func(list ...NetworkInterface) NodeClass { return NodeClass{NetworkInterfaces: list} }
	for name, tc := range map[string]struct {
		facts Facts
		class NodeClass
		want  bool
	}{
		"any":                                    {nitro("m5.large"), NodeClass{AMIFamily: FamilyAL2023}, true},
		"AL2023 on the first Graviton":           {nitro("a1.large"), NodeClass{AMIFamily: FamilyAL2023}, false},
		"Bottlerocket on the first Graviton":     {nitro("a1.large"), NodeClass{AMIFamily: FamilyBottlerocket}, true},
		"connection tracking on Xen":             {xen, NodeClass{ConnectionTracking: true}, false},
		"connection tracking on Nitro":           {nitro("m5.large"), NodeClass{ConnectionTracking: true}, true},
		"nested virtualization":                  {nested, NodeClass{NestedVirtualization: true}, true},
		"no nested virtualization":               {nitro("m5.large"), NodeClass{NestedVirtualization: true}, false},
		"one interface":                          {nitro("m5.large"), layout(NetworkInterface{}), true},
		"EFA without EFA":                        {nitro("m5.large"), layout(NetworkInterface{}, NetworkInterface{Device: 1, EFAOnly: true}), false},
		"two EFAs":                               {efa, layout(NetworkInterface{}, NetworkInterface{Device: 1, EFAOnly: true}, NetworkInterface{Card: 1, EFAOnly: true}), true},
		"a card that there is not":               {efa, layout(NetworkInterface{Card: 2}), false},
		"more interfaces than the card can have": {efa, layout(NetworkInterface{Card: 1, Device: 2}), false},
	} {
		if got := Suits(tc.facts, tc.class); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// The numbers follow EC2's user guide, "Amazon EBS volume limits": attachments that are shared leave less.
func TestVolumeAttachments(t *testing.T) {
	with := func(change func(*Facts)) Facts {
		f := nitro("x.large")
		change(&f)
		return f
	}
	class := NodeClass{AMIFamily: FamilyAL2023}
	for name, tc := range map[string]struct {
		facts Facts
		class NodeClass
		want  int64
	}{
		"shared, three network interfaces":   {nitro("m5.large"), class, 28 - 3 - 1},
		"few pods need one, one is warm":     {nitro("m5.large"), NodeClass{AMIFamily: FamilyAL2023, MaxPods: new(int32(8))}, 28 - 2 - 1},
		"Bottlerocket has two volumes":       {nitro("m5.large"), NodeClass{AMIFamily: FamilyBottlerocket}, 28 - 3 - 2},
		"two volumes of the class":           {nitro("m5.large"), NodeClass{BlockDevices: make([]BlockDevice, 2)}, 28 - 3 - 2},
		"a local disk and a GPU":             {with(func(f *Facts) { f.Disks, f.LocalNVMe, f.GPUs = 1, true, []Device{{Count: 1}} }), class, 28 - 3 - 1 - 2},
		"what EC2 tells, where it is less":   {with(func(f *Facts) { f.EBSAttachments = 20 }), class, 20 - 2 - 1},
		"dedicated":                          {with(func(f *Facts) { f.EBSAttachments, f.EBSDedicated, f.Disks, f.LocalNVMe = 32, true, 4, true }), class, 31},
		"Xen":                                {with(func(f *Facts) { f.Hypervisor = "xen" }), class, 38},
		"never less than the driver's least": {with(func(f *Facts) { f.GPUs = []Device{{Count: 16}}; f.Disks, f.LocalNVMe = 16, true }), class, 1},
	} {
		if got := VolumeAttachments(tc.facts, tc.class); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestSettingsAndLearning(t *testing.T) {
	memory := func(class NodeClass) string {
		shape, err := New(nitro("m5.large"), class)
		if err != nil {
			t.Fatal(err)
		}
		return shape.Capacity.Memory().String()
	}
	learned := func(l Learned) map[string]Learned { return map[string]Learned{"m5.large": l} }
	for name, tc := range map[string]struct {
		class NodeClass
		want  string
	}{
		"Karpenter's share":          {NodeClass{}, "7577Mi"},
		"another share":              {NodeClass{MemoryOverhead: new(0.05)}, "7782Mi"},
		"no share":                   {NodeClass{MemoryOverhead: new(0.0)}, "8Gi"},
		"what a node reported":       {NodeClass{Learned: learned(Learned{MemoryBytes: 7750 << 20})}, "7750Mi"},
		"never more than there is":   {NodeClass{Learned: learned(Learned{MemoryBytes: 9000 << 20})}, "8Gi"},
		"learned of another type":    {NodeClass{Learned: map[string]Learned{"m5.xlarge": {MemoryBytes: 1}}}, "7577Mi"},
		"learned without its memory": {NodeClass{Learned: learned(Learned{})}, "7577Mi"},
	} {
		if got := memory(tc.class); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	shape, err := New(nitro("m5.large"), NodeClass{Learned: learned(Learned{Allocatable: corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("5"), corev1.ResourceCPU: resource.MustParse("64"),
	}})})
	if err != nil || shape.Allocatable.Pods().Value() != 5 || shape.Allocatable.Cpu().String() != "1930m" {
		t.Errorf("no more than a node left to pods: %v, %v", shape.Allocatable, err)
	}
}

func TestReservedENIs(t *testing.T) {
	efa := NetworkInterface{Device: 1, EFAOnly: true}
	for name, tc := range map[string]struct {
		class NodeClass
		want  int64
	}{
		"none":                        {NodeClass{}, 3*9 + 2},
		"one":                         {NodeClass{ReservedENIs: 1}, 2*9 + 2},
		"all":                         {NodeClass{ReservedENIs: 3}, 0},
		"an EFA of the first card":    {NodeClass{NetworkInterfaces: []NetworkInterface{efa}}, 2*9 + 2},
		"an EFA of another card":      {NodeClass{NetworkInterfaces: []NetworkInterface{{Card: 1, EFAOnly: true}}}, 3*9 + 2},
		"maxPods counts all the same": {NodeClass{ReservedENIs: 1, MaxPods: new(int32(110))}, 110},
	} {
		if got := MaxPods(nitro("m5.large"), tc.class); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	shape, err := New(nitro("m5.large"), NodeClass{NetworkInterfaces: []NetworkInterface{efa}})
	if q := shape.Capacity[ResourceEFA]; err != nil || q.Value() != 1 {
		t.Errorf("EFA: %v, %v", shape.Capacity, err)
	}
}

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
		"Windows on Graviton":                    {Facts{Name: "m7g.large", Arch: "arm64"}, NodeClass{AMIFamily: FamilyWindows2022}, false},
		"Windows on a type that EKS excludes":    {nitro("m6a.large"), NodeClass{AMIFamily: FamilyWindows2022}, false},
		"Windows on the largest m4":              {nitro("m4.16xlarge"), NodeClass{AMIFamily: FamilyWindows2019}, true},
		"Windows":                                {nitro("m5.large"), NodeClass{AMIFamily: FamilyWindows2025}, true},
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
		"what a node reported":       {NodeClass{Learned: learned(Learned{{MemoryBytes: 7750 << 20}})}, "7750Mi"},
		"the least of several":       {NodeClass{Learned: learned(Learned{{MemoryBytes: 7750 << 20}, {MemoryBytes: 7740 << 20}})}, "7740Mi"},
		"one alone reports little":   {NodeClass{Learned: learned(Learned{{MemoryBytes: 7750 << 20}, {MemoryBytes: 1}})}, "5819136Ki"},
		"two report little":          {NodeClass{Learned: learned(Learned{{MemoryBytes: 4 << 30}, {MemoryBytes: 1 << 30}})}, "4Gi"},
		"never more than there is":   {NodeClass{Learned: learned(Learned{{MemoryBytes: 9000 << 20}})}, "8Gi"},
		"learned of another type":    {NodeClass{Learned: map[string]Learned{"m5.xlarge": {{MemoryBytes: 1}}}}, "7577Mi"},
		"learned without its memory": {NodeClass{Learned: learned(Learned{{}})}, "7577Mi"},
	} {
		if got := memory(tc.class); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// One node can lower a computed value to three quarters; a lower value needs two nodes.
func TestLearnedAllocatable(t *testing.T) {
	report := func(cpu, pods string) Reported {
		return Reported{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse(pods)}}
	}
	for name, tc := range map[string]struct {
		reports   Learned
		cpu, pods string
	}{
		"nothing":                 {nil, "1930m", "29"},
		"a little less":           {Learned{report("1900m", "25")}, "1900m", "25"},
		"more than there is":      {Learned{report("64", "5000")}, "1930m", "29"},
		"one, far less":           {Learned{report("20m", "0")}, "1447m", "21"},
		"another says otherwise":  {Learned{report("20m", "0"), report("1930m", "29"), report("1920m", "28")}, "1447m", "21"},
		"two, far less":           {Learned{report("20m", "0"), report("930m", "17")}, "930m", "17"},
		"two, one of them nearly": {Learned{report("20m", "0"), report("1500m", "22")}, "1447m", "21"},
	} {
		shape, err := New(nitro("m5.large"), NodeClass{Learned: map[string]Learned{"m5.large": tc.reports}})
		if err != nil {
			t.Fatal(err)
		}
		if cpu, pods := shape.Allocatable.Cpu(), shape.Allocatable.Pods(); cpu.String() != tc.cpu || pods.String() != tc.pods {
			t.Errorf("%s: %s CPU and %s pods, want %s and %s", name, cpu, pods, tc.cpu, tc.pods)
		}
	}
	// The share is that of EC2's value: reports of the capacity do not lower it further.
	low := Reported{MemoryBytes: 1, Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}}
	plain, err := New(nitro("m5.large"), NodeClass{})
	if err != nil {
		t.Fatal(err)
	}
	attacked, err := New(nitro("m5.large"), NodeClass{Learned: map[string]Learned{"m5.large": {low}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, of := attacked.Allocatable.Memory().Value(), plain.Allocatable.Memory().Value(); got*100 < of*70 {
		t.Errorf("one node lowers allocatable memory from %d to %d", of, got)
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

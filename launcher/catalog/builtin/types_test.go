package builtin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/builtin"
)

func facts(t *testing.T) map[string]catalog.Facts {
	t.Helper()
	types, err := builtin.Types()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]catalog.Facts{}
	for i, it := range types {
		if i > 0 && types[i-1].Name >= it.Name {
			t.Errorf("%s behind %s: the types are sorted and named once", it.Name, types[i-1].Name)
		}
		out[it.Name] = it.Facts()
	}
	return out
}

// One type of each kind, as EC2 would describe it.
func TestFacts(t *testing.T) {
	all := facts(t)
	plain := catalog.Facts{
		Name: "m7g.large", Arch: "arm64", VCPUs: 2, MemoryMiB: 8192, Hypervisor: "nitro", CurrentGeneration: true, EncryptionInTransit: true,
		CPUManufacturer: "AWS", ClockMHz: 2600, ENIs: 3, IPv4PerENI: 10, NetworkCards: []catalog.NetworkCard{{Index: 0, ENIs: 3}},
		EBSBandwidthMbps: 10000, NetworkBandwidthMbps: 937, CapacityTypes: []string{"on-demand", "spot"},
	}
	if diff := cmp.Diff(plain, all["m7g.large"]); diff != "" {
		t.Errorf("m7g.large (-want +got):\n%s", diff)
	}
	if g := all["g5.xlarge"]; g.Arch != "amd64" || len(g.GPUs) != 1 || g.GPUs[0].Manufacturer != "NVIDIA" || g.GPUs[0].Count != 1 || g.InstanceStoreGB != 250 || !g.LocalNVMe {
		t.Errorf("g5.xlarge: %+v", g)
	}
	if n := all["inf2.xlarge"]; len(n.Neuron) != 1 || n.Neuron[0].Cores != 2 || len(n.GPUs) > 0 {
		t.Errorf("inf2.xlarge: %+v", n)
	}
	if m := all["m5.metal"]; !m.BareMetal || m.Hypervisor != "" || m.CurrentGeneration {
		t.Errorf("m5.metal: %+v", m)
	}
}

func TestEveryTypeTakesPods(t *testing.T) {
	for name, f := range facts(t) {
		if got := catalog.ENIPods(f); got < 4 {
			t.Errorf("%s: %d pods", name, got)
		}
	}
}

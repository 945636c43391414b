package plan_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// described is what the benchmark reads of the JSON that `aws ec2 describe-instance-types` prints.
type described struct {
	InstanceTypes []struct {
		InstanceType          string
		BareMetal             bool
		CurrentGeneration     bool
		Hypervisor            string
		SupportedUsageClasses []string
		VCpuInfo              struct{ DefaultVCpus int64 }
		MemoryInfo            struct{ SizeInMiB int64 }
		ProcessorInfo         struct{ SupportedArchitectures []string }
		GpuInfo               struct {
			Gpus []struct {
				Name, Manufacturer string
				Count              int64
			}
		}
		NetworkInfo struct {
			Ipv4AddressesPerInterface int64
			NetworkCards              []struct{ NetworkCardIndex, MaximumNetworkInterfaces int64 }
		}
	}
}

// priced is prices by type, and for spot by zone.
type priced struct {
	OnDemand map[string]float64            `json:"on-demand"`
	Spot     map[string]map[string]float64 `json:"spot"`
}

// readCatalog reads instance-types.json, prices.json and zones.json of a directory.
func readCatalog(tb testing.TB, dir string) []catalog.InstanceType {
	tb.Helper()
	var types described
	var prices priced
	var zones []string
	for name, into := range map[string]any{"instance-types.json": &types, "prices.json": &prices, "zones.json": &zones} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			tb.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
	}
	var out []catalog.InstanceType
	for _, t := range types.InstanceTypes {
		f := catalog.Facts{
			Name: t.InstanceType, Arch: "amd64", VCPUs: t.VCpuInfo.DefaultVCpus, MemoryMiB: t.MemoryInfo.SizeInMiB, Hypervisor: t.Hypervisor,
			BareMetal: t.BareMetal, CurrentGeneration: t.CurrentGeneration, IPv4PerENI: t.NetworkInfo.Ipv4AddressesPerInterface,
		}
		if slices.Contains(t.ProcessorInfo.SupportedArchitectures, "arm64") {
			f.Arch = "arm64"
		}
		if len(t.NetworkInfo.NetworkCards) > 0 {
			f.ENIs = t.NetworkInfo.NetworkCards[0].MaximumNetworkInterfaces
		}
		for _, g := range t.GpuInfo.Gpus {
			f.GPUs = append(f.GPUs, catalog.Device{Name: g.Name, Manufacturer: g.Manufacturer, Count: g.Count})
		}
		it, err := catalog.New(f, catalog.NodeClass{AMIFamily: catalog.FamilyAL2023})
		if err != nil {
			tb.Fatal(err)
		}
		it.Offerings = offerings(f.Name, zones, &prices)
		out = append(out, it)
	}
	return out
}

func offerings(name string, zones []string, prices *priced) []catalog.Offering {
	var out []catalog.Offering
	for i, z := range zones {
		id := "use1-az" + string(rune('1'+i))
		if p, ok := prices.OnDemand[name]; ok {
			out = append(out, catalog.Offering{Zone: z, ZoneID: id, CapacityType: "on-demand", Price: p, Available: true})
		}
		if p, ok := prices.Spot[z][name]; ok {
			out = append(out, catalog.Offering{Zone: z, ZoneID: id, CapacityType: "spot", Price: p, Available: true})
		}
	}
	return out
}

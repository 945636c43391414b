package parity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// TestKnownCases tries the cases in testdata: each once failed, and its first line says how.
func TestKnownCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	bubble(t, func(ctx context.Context, l *lab) {
		for _, file := range files {
			c, err := readCase(file)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if f := l.try(ctx, c); f != nil {
				t.Errorf("%s: %s does not hold: %q", file, f.property, f.what)
			}
		}
	})
}

// readCase is the inverse of archive.
func readCase(file string) (*cluster, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &cluster{}
	var types struct{ InstanceTypes []instanceTypeJSON }
	var prices pricesJSON
	var market map[string]marketJSON
	for _, f := range txtar.Parse(data).Files {
		switch f.Name {
		case "objects.yaml":
			for doc := range strings.SplitSeq(string(f.Data), "\n---\n") {
				if err := c.addObject([]byte(doc)); err != nil {
					return nil, err
				}
			}
		case "instance-types.json":
			err = json.Unmarshal(f.Data, &types)
		case "prices.json":
			err = json.Unmarshal(f.Data, &prices)
		case "market.json":
			err = json.Unmarshal(f.Data, &market)
		case "zones.json":
			err = json.Unmarshal(f.Data, &c.zones)
		default:
			err = fmt.Errorf("unknown section %s", f.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, x := range types.InstanceTypes {
		c.types = append(c.types, prices.instance(x.facts(), market[x.InstanceType]))
	}
	return c, nil
}

// pricesJSON are prices in USD per hour: by type, and by zone and type.
type pricesJSON struct {
	OnDemand map[string]float64            `json:"on-demand"`
	Spot     map[string]map[string]float64 `json:"spot"`
}

func (p pricesJSON) instance(facts catalog.Facts, m marketJSON) instance {
	t := instance{
		Facts: facts, onDemand: p.OnDemand[facts.Name], spot: map[string]float64{}, sold: map[string]bool{},
		reserved: m.Reserved, attach: m.Attach,
	}
	for _, of := range m.Sold {
		t.sold[of] = true
	}
	for zone, list := range p.Spot {
		if price, ok := list[t.Name]; ok {
			t.spot[zone] = price
		}
	}
	return t
}

func (c *cluster) addObject(doc []byte) error {
	var kind struct{ Kind string }
	if err := yaml.Unmarshal(doc, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "NodePool":
		p, err := readPool(doc)
		c.pools = append(c.pools, p)
		return err
	case "Namespace":
		return add(doc, &c.namespaces, &corev1.Namespace{})
	case "StorageClass":
		return add(doc, &c.classes, &storagev1.StorageClass{})
	case "PersistentVolume":
		return add(doc, &c.volumes, &corev1.PersistentVolume{})
	case "PersistentVolumeClaim":
		return add(doc, &c.claims, &corev1.PersistentVolumeClaim{})
	case "DaemonSet":
		return add(doc, &c.daemonSets, &appsv1.DaemonSet{})
	case "Node":
		return add(doc, &c.nodes, &corev1.Node{})
	case "Pod":
		return add(doc, &c.pods, &corev1.Pod{})
	}
	return fmt.Errorf("unknown kind %q", kind.Kind)
}

func add[T any](doc []byte, list *[]*T, o *T) error {
	*list = append(*list, o)
	return yaml.UnmarshalStrict(doc, o)
}

func readPool(doc []byte) (catalog.NodePool, error) {
	var in struct {
		Metadata struct{ Name string }
		Spec     struct {
			Weight   int32
			Limits   map[corev1.ResourceName]resource.Quantity
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Requirements []struct {
						Key, Operator string
						Values        []string
						MinValues     int32
					}
					Taints []corev1.Taint
				}
			}
		}
	}
	err := yaml.Unmarshal(doc, &in)
	p := catalog.NodePool{
		Name: in.Metadata.Name, NodeClass: class, Ready: true, Weight: in.Spec.Weight, Limits: in.Spec.Limits,
		Labels: map[string]string{"karpenter.sh/nodepool": in.Metadata.Name}, Taints: in.Spec.Template.Spec.Taints,
	}
	maps.Copy(p.Labels, in.Spec.Template.Metadata.Labels)
	for _, r := range in.Spec.Template.Spec.Requirements {
		p.Requirements = append(p.Requirements, catalog.Requirement{
			Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: r.Values, MinValues: r.MinValues,
		})
	}
	return p, err
}

// instanceTypeJSON is one entry of what `aws ec2 describe-instance-types` prints, as far as cases have it.
type instanceTypeJSON struct {
	InstanceType          string
	SupportedUsageClasses []string
	ProcessorInfo         struct {
		SupportedArchitectures []string
		Manufacturer           string
	}
	VCpuInfo    struct{ DefaultVCpus int64 }
	MemoryInfo  struct{ SizeInMiB int64 }
	NetworkInfo struct{ MaximumNetworkInterfaces, Ipv4AddressesPerInterface int64 }
	GpuInfo     struct {
		Gpus []struct {
			Name, Manufacturer string
			Count              int64
			MemoryInfo         struct{ SizeInMiB int64 }
		}
	}
}

func (x instanceTypeJSON) facts() catalog.Facts {
	f := catalog.Facts{
		Name: x.InstanceType, Arch: "amd64", VCPUs: x.VCpuInfo.DefaultVCpus, MemoryMiB: x.MemoryInfo.SizeInMiB, Hypervisor: "nitro",
		CurrentGeneration: true, CPUManufacturer: x.ProcessorInfo.Manufacturer, CapacityTypes: x.SupportedUsageClasses,
		ENIs: x.NetworkInfo.MaximumNetworkInterfaces, IPv4PerENI: x.NetworkInfo.Ipv4AddressesPerInterface,
	}
	if len(x.ProcessorInfo.SupportedArchitectures) > 0 && x.ProcessorInfo.SupportedArchitectures[0] == "arm64" {
		f.Arch = "arm64"
	}
	for _, g := range x.GpuInfo.Gpus {
		f.GPUs = append(f.GPUs, catalog.Device{Name: g.Name, Manufacturer: g.Manufacturer, Count: g.Count, MemoryMiB: g.MemoryInfo.SizeInMiB})
	}
	return f
}

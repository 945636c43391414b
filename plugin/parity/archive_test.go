package parity_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// archive writes the case as the files that `slipway simulate` reads: -f objects.yaml --instance-types
// instance-types.json --prices prices.json --zones zones.json.
func (c *cluster) archive(comment string, what []string) []byte {
	a := &txtar.Archive{Comment: []byte("# " + comment + "\n# " + strings.Join(what, "\n# ") + "\n")}
	add := func(name string, data []byte) { a.Files = append(a.Files, txtar.File{Name: name, Data: data}) }
	add("objects.yaml", c.objects())
	add("instance-types.json", text(c.instanceTypes()))
	add("prices.json", text(c.prices()))
	add("zones.json", text(c.zones))
	if more := c.market(); len(more) > 0 {
		add("market.json", text(more))
	}
	return txtar.Format(a)
}

func text(v any) []byte {
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return append(out, '\n')
}

func (c *cluster) objects() []byte {
	var docs [][]byte
	add := func(apiVersion, kind string, o any) {
		raw, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		fields := map[string]any{}
		if err := json.Unmarshal(raw, &fields); err != nil {
			panic(err)
		}
		fields["apiVersion"], fields["kind"] = apiVersion, kind
		out, err := yaml.Marshal(tidy(fields))
		if err != nil {
			panic(err)
		}
		docs = append(docs, out)
	}
	for _, p := range c.pools {
		add("karpenter.sh/v1", "NodePool", nodePool(p))
	}
	for _, o := range c.namespaces {
		add("v1", "Namespace", o)
	}
	for _, o := range c.classes {
		add("storage.k8s.io/v1", "StorageClass", o)
	}
	for _, o := range c.volumes {
		add("v1", "PersistentVolume", o)
	}
	for _, o := range c.claims {
		add("v1", "PersistentVolumeClaim", o)
	}
	for _, o := range c.daemonSets {
		add("apps/v1", "DaemonSet", o)
	}
	for _, o := range c.nodes {
		add("v1", "Node", o)
	}
	for _, o := range c.pods {
		add("v1", "Pod", o)
	}
	return bytes.Join(docs, []byte("---\n"))
}

// tidy drops what is empty.
func tidy(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, x := range fields {
		x = tidy(x)
		if m, ok := x.(map[string]any); x == nil || ok && len(m) == 0 && k != "labelSelector" && k != "namespaceSelector" {
			delete(fields, k)
		}
	}
	return fields
}

func nodePool(p catalog.NodePool) map[string]any {
	requirements := []map[string]any{}
	for _, r := range p.Requirements {
		one := map[string]any{"key": r.Key, "operator": r.Operator}
		if len(r.Values) > 0 {
			one["values"] = r.Values
		}
		if r.MinValues > 0 {
			one["minValues"] = r.MinValues
		}
		requirements = append(requirements, one)
	}
	labels := map[string]any{}
	for k, v := range p.Labels {
		if k != "karpenter.sh/nodepool" {
			labels[k] = v
		}
	}
	spec := map[string]any{
		"requirements": requirements, "taints": p.Taints,
		"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": p.NodeClass},
	}
	limits := map[string]any{}
	for name, q := range p.Limits {
		limits[string(name)] = q.String()
	}
	return map[string]any{
		"metadata": map[string]any{"name": p.Name},
		"spec": map[string]any{
			"weight": p.Weight, "limits": limits, "template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec},
		},
	}
}

// market is what EC2 says of an instance type beside its price, by name: simulate has no file for it.
func (c *cluster) market() map[string]marketJSON {
	out := map[string]marketJSON{}
	for i := range c.types {
		t := &c.types[i]
		m := marketJSON{Sold: slices.Sorted(maps.Keys(t.sold)), Reserved: t.reserved, Attach: t.attach}
		if len(m.Sold) > 0 || m.Reserved > 0 || m.Attach > 0 {
			out[t.Name] = m
		}
	}
	return out
}

type marketJSON struct {
	Sold             []string `json:",omitempty"`
	Reserved, Attach int64    `json:",omitempty"`
}

// instanceTypes is what `aws ec2 describe-instance-types` would print.
func (c *cluster) instanceTypes() map[string]any {
	var list []map[string]any
	for _, t := range c.types {
		arch := "x86_64"
		if t.Arch == "arm64" {
			arch = "arm64"
		}
		one := map[string]any{
			"InstanceType": t.Name, "CurrentGeneration": true, "BareMetal": false, "Hypervisor": t.Hypervisor,
			"SupportedUsageClasses": t.CapacityTypes,
			"ProcessorInfo":         map[string]any{"SupportedArchitectures": []string{arch}, "Manufacturer": t.CPUManufacturer},
			"VCpuInfo":              map[string]any{"DefaultVCpus": t.VCPUs},
			"MemoryInfo":            map[string]any{"SizeInMiB": t.MemoryMiB},
			"NetworkInfo": map[string]any{
				"MaximumNetworkInterfaces": t.ENIs, "Ipv4AddressesPerInterface": t.IPv4PerENI, "DefaultNetworkCardIndex": 0,
				"NetworkCards": []map[string]any{{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": t.ENIs}},
			},
		}
		if len(t.GPUs) > 0 {
			g := t.GPUs[0]
			one["GpuInfo"] = map[string]any{"Gpus": []map[string]any{{
				"Name": g.Name, "Manufacturer": g.Manufacturer, "Count": g.Count, "MemoryInfo": map[string]any{"SizeInMiB": g.MemoryMiB},
			}}}
		}
		list = append(list, one)
	}
	return map[string]any{"InstanceTypes": list}
}

func (c *cluster) prices() map[string]any {
	onDemand, spot := map[string]float64{}, map[string]map[string]float64{}
	for _, t := range c.types {
		onDemand[t.Name] = t.onDemand
		for zone, p := range t.spot {
			if spot[zone] == nil {
				spot[zone] = map[string]float64{}
			}
			spot[zone][t.Name] = p
		}
	}
	return map[string]any{"on-demand": onDemand, "spot": spot}
}

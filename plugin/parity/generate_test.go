package parity_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// dice makes the random choices of one case.
type dice struct {
	*rand.Rand
	// features that this case uses: few at a time, so that the cases stay readable and each is tried alone too.
	features map[string]bool
}

func newDice(seed uint64) dice {
	d := dice{Rand: newRand([2]uint64{seed, 2026}), features: map[string]bool{}}
	all := []string{
		"selector", "nodeAffinity", "taint", "spread", "affinity", "antiAffinity", "port", "volume", "daemon", "node",
		"limit", "weight", "poolRequirement", "openLabel", "minValues", "sold", "namespace", "init", "version", "spot",
		"big", "priority", "preference", "gang", "reserved", "device", "starting", "attach",
	}
	for range 1 + d.IntN(5) {
		d.features[all[d.IntN(len(all))]] = true
	}
	return d
}

func newRand(seed [2]uint64) *rand.Rand { return rand.New(rand.NewPCG(seed[0], seed[1])) }

// on says whether to use the feature here: in half of the places of a case that uses it at all.
func (d dice) on(feature string) bool { return d.features[feature] && d.IntN(2) == 0 }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func some[T any](d dice, from ...T) []T {
	first := d.IntN(len(from))
	out := []T{from[first]}
	for i, x := range from {
		if i != first && d.IntN(3) == 0 {
			out = append(out, x)
		}
	}
	return out
}

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// facts is the catalogue from which cases take their types.
func facts() []catalog.Facts {
	make1 := func(name, arch string, cpus, gib, enis, ips int64) catalog.Facts {
		maker := "Intel"
		if arch == "arm64" {
			maker = "AWS"
		}
		return catalog.Facts{
			Name: name, Arch: arch, VCPUs: cpus, MemoryMiB: gib << 10, Hypervisor: "nitro", CurrentGeneration: true,
			CPUManufacturer: maker, ENIs: enis, IPv4PerENI: ips, CapacityTypes: []string{"spot", "on-demand"},
		}
	}
	gpu := make1("g5.xlarge", "amd64", 4, 16, 4, 15)
	gpu.GPUs = []catalog.Device{{Name: "A10G", Manufacturer: "NVIDIA", Count: 1, MemoryMiB: 24576}}
	return []catalog.Facts{
		make1("t3.small", "amd64", 2, 2, 3, 4),
		make1("c5.large", "amd64", 2, 4, 3, 10),
		make1("m5.large", "amd64", 2, 8, 3, 10),
		make1("m5.xlarge", "amd64", 4, 16, 4, 15),
		make1("m5.2xlarge", "amd64", 8, 32, 4, 15),
		make1("r5.large", "amd64", 2, 16, 3, 10),
		make1("m6g.large", "arm64", 2, 8, 3, 10),
		make1("c6g.xlarge", "arm64", 4, 8, 4, 15),
		make1("r6g.2xlarge", "arm64", 8, 64, 4, 15),
		gpu,
	}
}

// generate makes the case of the seed.
func generate(seed uint64) *cluster {
	d := newDice(seed)
	c := d.ordinary()
	c.seed = seed
	if seed%hostileEvery == 0 {
		d.hostility(c)
	}
	return c
}

// ordinary is a case of what users mean.
func (d dice) ordinary() *cluster {
	c := &cluster{zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"}[:1+d.IntN(3)]}
	if d.on("preference") {
		c.preferenceShare = 0.1
	}
	d.types(c)
	for i := range 1 + d.IntN(3) {
		c.pools = append(c.pools, d.pool(i))
	}
	for _, ns := range []struct{ name, team string }{{"default", ""}, {"blue", "blue"}, {"red", "red"}} {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.name, Labels: map[string]string{corev1.LabelMetadataName: ns.name}}}
		if ns.team != "" {
			o.Labels["team"] = ns.team
		}
		c.namespaces = append(c.namespaces, o)
	}
	if d.features["daemon"] {
		for i := range 1 + d.IntN(2) {
			c.daemonSets = append(c.daemonSets, d.daemonSet(i))
		}
	}
	if d.features["volume"] || d.features["attach"] {
		d.storage(c)
	}
	if d.features["node"] {
		d.nodes(c)
	}
	templates := 1 + d.IntN(4)
	for i := range templates {
		t := d.template(c, i)
		for k := range 1 + d.IntN(4) {
			p := t.DeepCopy()
			p.Name = fmt.Sprintf("%s-%d", t.Name, k)
			p.UID = types.UID(p.Name)
			if d.on("attach") {
				d.volume(c, p) // One of its own, as a StatefulSet's pods have.
			}
			d.ownClaims(c, p)
			c.pods = append(c.pods, p)
		}
	}
	return c
}

func (d dice) types(c *cluster) {
	for i, f := range some(d, facts()...) {
		if i == 5 {
			break
		}
		memory := float64(f.MemoryMiB >> 10)
		t := instance{Facts: f, spot: map[string]float64{}, sold: map[string]bool{}}
		if d.on("reserved") {
			t.reserved = 1 + d.Int64N(2)
		}
		if d.features["attach"] {
			t.attach = 1 + d.Int64N(3)
		}
		t.onDemand = 0.03*float64(f.VCPUs) + 0.004*memory*float64(8+d.IntN(5))/10 + float64(len(f.GPUs))
		for _, z := range c.zones {
			if d.on("spot") {
				t.spot[z] = t.onDemand * float64(30+d.IntN(50)) / 100
			}
			for _, ct := range []string{"spot", "on-demand"} {
				if d.on("sold") && d.IntN(2) == 0 {
					t.sold[z+"/"+ct] = true
				}
			}
		}
		c.types = append(c.types, t)
	}
}

func (d dice) pool(i int) catalog.NodePool {
	name := []string{"alpha", "beta", "gamma"}[i]
	p := catalog.NodePool{Name: name, NodeClass: class, Ready: true, Labels: map[string]string{"karpenter.sh/nodepool": name}}
	if d.on("weight") {
		p.Weight = int32(d.IntN(3) * 10)
	}
	if d.on("taint") {
		p.Taints = append(p.Taints, d.taint())
	}
	if d.on("poolRequirement") {
		for range 1 + d.IntN(2) {
			r := d.expression()
			p.Requirements = append(p.Requirements, catalog.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
		}
	}
	if d.on("openLabel") {
		p.Requirements = append(p.Requirements, pick(d,
			catalog.Requirement{Key: "example.com/team", Operator: corev1.NodeSelectorOpIn, Values: []string{"blue", "red"}},
			catalog.Requirement{Key: "example.com/team", Operator: corev1.NodeSelectorOpExists},
			catalog.Requirement{Key: "example.com/rank", Operator: corev1.NodeSelectorOpGt, Values: []string{"3"}},
			catalog.Requirement{Key: "example.com/team", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"blue"}},
			catalog.Requirement{Key: "example.com/team", Operator: corev1.NodeSelectorOpDoesNotExist},
		))
	}
	if d.on("openLabel") {
		p.Labels["example.com/owner"] = pick(d, "blue", "red")
	}
	if d.on("minValues") {
		p.Requirements = append(p.Requirements, catalog.Requirement{
			Key:      pick(d, corev1.LabelInstanceTypeStable, catalog.LabelInstanceFamily, catalog.LabelInstanceSize),
			Operator: corev1.NodeSelectorOpExists, MinValues: int32(1 + d.IntN(3)),
		})
	}
	if d.on("limit") {
		p.Limits = corev1.ResourceList{}
		p.Limits[pick(d, corev1.ResourceName("nodes"), corev1.ResourceCPU, corev1.ResourceMemory)] = quantity(1 + int64(d.IntN(8)))
		if q, ok := p.Limits[corev1.ResourceMemory]; ok {
			p.Limits[corev1.ResourceMemory] = *resource.NewQuantity(q.Value()<<33, resource.BinarySI)
		}
	}
	return p
}

func (d dice) taint() corev1.Taint {
	return corev1.Taint{
		Key: pick(d, "dedicated", "arm"), Value: pick(d, "", "x"),
		Effect: pick(d, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
}

// expression is a requirement on a node's labels, of any operator.
func (d dice) expression() corev1.NodeSelectorRequirement {
	var key string
	var values []string
	switch d.IntN(8) {
	case 0:
		key, values = corev1.LabelTopologyZone, []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	case 1:
		key, values = corev1.LabelArchStable, []string{"amd64", "arm64"}
	case 2:
		key, values = "karpenter.sh/capacity-type", []string{"spot", "on-demand"}
	case 3:
		key, values = catalog.LabelInstanceFamily, []string{"m5", "c5", "r5", "m6g"}
	case 4:
		key = catalog.LabelInstanceCPU
	case 5:
		key, values = "example.com/team", []string{"blue", "red"}
	case 6:
		key, values = pick(d, "example.com/owner", corev1.LabelFailureDomainBetaZone), []string{"blue", "red", "us-east-1a"}
	case 7:
		key, values = pick(d, corev1.LabelInstanceTypeStable, catalog.LabelInstanceGPUName), []string{"m5.large", "m5.xlarge", "a10g", "r6g.2xlarge"}
	}
	if values == nil {
		return corev1.NodeSelectorRequirement{
			Key: key, Operator: pick(d, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt), Values: []string{strconv.Itoa(1 + d.IntN(8))},
		}
	}
	r := corev1.NodeSelectorRequirement{Key: key, Operator: pick(d,
		corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist)}
	if r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn {
		r.Values = some(d, values...)
	}
	return r
}

func (d dice) daemonSet(i int) *appsv1.DaemonSet {
	name := fmt.Sprintf("daemon-%d", i)
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"daemon": name}}
	ds.Spec.Template.Labels = map[string]string{"daemon": name}
	spec := &ds.Spec.Template.Spec
	spec.Containers = []corev1.Container{{Name: "main", Image: "busybox"}}
	spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(50+50*d.IntN(6)), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse(pick(d, "64Mi", "512Mi")),
	}
	if d.IntN(3) == 0 {
		spec.NodeSelector = map[string]string{corev1.LabelArchStable: pick(d, "amd64", "arm64")}
	}
	if d.IntN(3) == 0 {
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if d.IntN(4) == 0 {
		spec.Containers[0].Ports = []corev1.ContainerPort{d.port()}
	}
	return ds
}

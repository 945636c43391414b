package plan_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

func (c catalogYAML) input(tb testing.TB) plan.Input {
	tb.Helper()
	in := plan.Input{
		Now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), Namespaces: c.Namespaces, PreferenceShare: c.Preferences, MinValuesBestEffort: c.BestEffort,
		Catalog: catalog.State{
			NodePools: map[string]catalog.NodePool{}, InstanceTypes: map[string][]catalog.InstanceType{}, InFlight: map[string]catalog.InFlightNode{},
		},
	}
	if len(c.Zones) == 0 {
		c.Zones = []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	}
	for _, p := range c.Pools {
		np := catalog.NodePool{
			Name: p.Name, NodeClass: "default", Weight: p.Weight, Labels: map[string]string{"karpenter.sh/nodepool": p.Name},
			Taints: taints(tb, p.Taints), StartupTaints: taints(tb, p.StartupTaints), Limits: list(p.Limits), Usage: list(p.Usage), Ready: p.NotReady == "", NotReadyMessage: p.NotReady,
		}
		if p.NodeClass != "" {
			np.NodeClass = p.NodeClass
		}
		maps.Copy(np.Labels, p.Labels)
		for _, r := range p.Requirements {
			np.Requirements = append(np.Requirements, requirement(tb, r))
		}
		in.Catalog.NodePools[p.Name] = np
	}
	for _, s := range c.Types {
		in.Catalog.InstanceTypes["default"] = append(in.Catalog.InstanceTypes["default"], instanceType(tb, s, c))
	}
	for _, n := range c.Nodes {
		node := plan.Node{Name: n.Name, Labels: n.Labels, Taints: taints(tb, n.Taints), Attachable: n.Attachable}
		if n.Free != nil {
			node.Free = list(n.Free)
		}
		if n.InFlight {
			flying := catalog.InFlightNode{NodeClaim: n.Name, NodePool: "default", Phase: catalog.PhaseLaunched, Standby: n.Standby}
			if f := strings.Fields(n.Expected); len(f) == 3 {
				flying.Phase, flying.InstanceType, flying.CapacityType, flying.Zone = catalog.PhaseRecorded, f[0], f[1], f[2]
			}
			in.Catalog.InFlight[n.Name] = flying
		}
		for _, p := range n.Pods {
			for range max(p.Count, 1) {
				node.Pods = append(node.Pods, p.pod())
			}
		}
		in.Nodes = append(in.Nodes, node)
	}
	in.Catalog.Commitments = c.commitments(tb, in.Now)
	for _, d := range c.DaemonSets {
		in.DaemonSets = append(in.DaemonSets, daemonSet(d))
	}
	return in
}

func (c catalogYAML) commitments(tb testing.TB, now time.Time) []commitment.Commitment {
	tb.Helper()
	text, err := yaml.Marshal(c.Commitments)
	if err != nil {
		tb.Fatal(err)
	}
	out, faults, err := commitment.Parse(text, now)
	if err != nil || len(faults) > 0 {
		tb.Fatalf("commitments: %v, %v", faults, err)
	}
	return out
}

func daemonSet(d podYAML) *appsv1.DaemonSet {
	pod := d.pod()
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: d.Name}}
	ds.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
	return ds
}

// requirement reads "KEY OPERATOR VALUE,VALUE min=N".
func requirement(tb testing.TB, s string) catalog.Requirement {
	tb.Helper()
	f := strings.Fields(s)
	if len(f) < 2 {
		tb.Fatalf("requirement %q: want KEY OPERATOR [VALUES] [min=N]", s)
	}
	r := catalog.Requirement{Key: f[0], Operator: corev1.NodeSelectorOperator(f[1])}
	for _, x := range f[2:] {
		if n, ok := strings.CutPrefix(x, "min="); ok {
			v, err := strconv.Atoi(n)
			if err != nil {
				tb.Fatal(err)
			}
			r.MinValues = int32(v)
			continue
		}
		r.Values = strings.Split(x, ",")
	}
	return r
}

// instanceType reads "NAME ARCH CPU MEMORY [pods=N] [gpu=N] [volumes=N] [RESOURCE=N] [od=PRICE] [reserved=ID:REMAINING[:KIND][,...]] [spot=PRICE[,PRICE...]]", spot
// prices by zone.
func instanceType(tb testing.TB, s string, c catalogYAML) catalog.InstanceType {
	tb.Helper()
	f := strings.Fields(s)
	if len(f) < 4 {
		tb.Fatalf("type %q: want NAME ARCH CPU MEMORY ...", s)
	}
	family, size, _ := strings.Cut(f[0], ".")
	it := catalog.InstanceType{Name: f[0], Labels: map[string]string{
		"node.kubernetes.io/instance-type": f[0], "kubernetes.io/arch": f[1], "kubernetes.io/os": "linux",
		"karpenter.k8s.aws/instance-family": family, "karpenter.k8s.aws/instance-size": size,
		"karpenter.k8s.aws/instance-category": family[:1], "karpenter.k8s.aws/instance-cpu": f[2],
	}}
	resources := map[string]string{"cpu": f[2], "memory": f[3], "pods": "58", "ephemeral-storage": "20Gi"}
	var p prices
	for _, x := range f[4:] {
		k, v, _ := strings.Cut(x, "=")
		switch k {
		case "pods", "gpu":
			resources[map[string]string{"pods": "pods", "gpu": "nvidia.com/gpu"}[k]] = v
		case "od":
			p.onDemand = v
		case "reserved":
			p.reserved = v
		case "spot":
			p.spot = strings.Split(v, ",")
		case "volumes":
			it.VolumeAttachments = wholeNumber(tb, s, v)
		default:
			if !strings.Contains(k, "/") && !strings.HasPrefix(k, "hugepages-") {
				tb.Fatalf("type %q: what is %q?", s, x)
			}
			resources[k] = v
		}
	}
	it.Capacity, it.Allocatable = list(resources), list(resources)
	it.Offerings = offeringsAt(tb, f[0], p, c)
	return it
}

// prices are those of an instance type; none is one it cannot be had for.
type prices struct {
	onDemand, reserved string
	spot               []string
}

func offeringsAt(tb testing.TB, name string, p prices, c catalogYAML) []catalog.Offering {
	tb.Helper()
	var out []catalog.Offering
	for i, z := range c.Zones {
		if p.onDemand != "" {
			out = append(out, offering(tb, [4]string{name, "on-demand", z, p.onDemand}, c))
		}
		if len(p.spot) > 0 {
			out = append(out, offering(tb, [4]string{name, "spot", z, p.spot[min(i, len(p.spot)-1)]}, c))
		}
	}
	if p.reserved != "" {
		for one := range strings.SplitSeq(p.reserved, ",") {
			out = append(out, reservation(tb, name, one, c))
		}
	}
	return out
}

func wholeNumber(tb testing.TB, name, s string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		tb.Fatalf("type %q: %v", name, err)
	}
	return n
}

// reservation reads ID:REMAINING[:KIND], of an offering in the first zone; KIND is default, capacity-block or interruptible.
func reservation(tb testing.TB, name, s string, c catalogYAML) catalog.Offering {
	tb.Helper()
	id, rest, _ := strings.Cut(s, ":")
	rest, kind, _ := strings.Cut(rest, ":")
	o := offering(tb, [4]string{name, "reserved", c.Zones[0], "0.0001"}, c)
	o.ReservationID, o.Remaining, o.ReservationType = id, wholeNumber(tb, name, rest), cmp.Or(kind, "default")
	if kind == "interruptible" {
		o.ReservationType, o.Interruptible = "default", true
	}
	return o
}

// offering is type, capacity type, zone and price.
func offering(tb testing.TB, f [4]string, c catalogYAML) catalog.Offering {
	tb.Helper()
	price, err := strconv.ParseFloat(f[3], 64)
	if err != nil {
		tb.Fatalf("type %q: %v", f[0], err)
	}
	o := catalog.Offering{Zone: f[2], ZoneID: "use1-az" + f[2][len(f[2])-1:], CapacityType: f[1], Price: price, Available: true}
	find := func(list []string) int {
		return slices.IndexFunc(list, func(s string) bool { return slices.Equal(strings.Fields(s)[:3], f[:3]) })
	}
	o.Probation = find(c.Probation) >= 0
	if find(c.Unsettled) >= 0 {
		o.SettlesAt = time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)
	}
	if i := find(c.Unavailable); i >= 0 {
		o.Available, o.UnavailableUntil = false, time.Date(2026, 3, 1, 10, 3, 0, 0, time.UTC)
		if fields := strings.Fields(c.Unavailable[i]); len(fields) > 3 {
			o.Refusal = ec2error.Refusal{Code: ec2error.Code(fields[3]), Since: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), Attempts: 4}
		}
	}
	return o
}

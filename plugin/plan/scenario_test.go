package plan_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write what the plans are into the scenario files")
	os.Exit(m.Run())
}

// podYAML is an entry of pods.yaml, of a node's pods and of daemonsets: count pods that ask for the requests; spec is a
// PodSpec for everything else.
type podYAML struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Count     int               `json:"count"`
	Labels    map[string]string `json:"labels"`
	Requests  map[string]string `json:"requests"`
	Spec      corev1.PodSpec    `json:"spec"`
}

// catalogYAML is catalog.yaml; testdata/README.md explains it.
type catalogYAML struct {
	Zones       []string   `json:"zones"`
	Pools       []poolYAML `json:"pools"`
	Types       []string   `json:"types"`
	Unavailable []string   `json:"unavailable"`
	Nodes       []nodeYAML `json:"nodes"`
	DaemonSets  []podYAML  `json:"daemonsets"`
	Rejected    []struct {
		Pod, Node, Pool, Type, Zone, CapacityType, Reason string
		With                                              []string
		MaxPerNode                                        int
	} `json:"rejected"`
}

type poolYAML struct {
	Name         string            `json:"name"`
	Weight       int32             `json:"weight"`
	Requirements []string          `json:"requirements"`
	Labels       map[string]string `json:"labels"`
	Taints       []string          `json:"taints"`
	Limits       map[string]string `json:"limits"`
	Usage        map[string]string `json:"usage"`
	NotReady     string            `json:"notReady"`
}

type nodeYAML struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels"`
	Taints   []string          `json:"taints"`
	Free     map[string]string `json:"free"`
	InFlight bool              `json:"inFlight"`
	Pods     []podYAML         `json:"pods"`
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(a.Comment), "# ") {
				t.Errorf("the file does not begin with a comment that says what it shows")
			}
			in := scenario(t, a)
			p := plan.Make(in)
			got := show(in, p)
			check(t, in, p)
			checkRelations(t, in, p)
			want := ""
			for i := range a.Files {
				if a.Files[i].Name == "want" {
					want = string(a.Files[i].Data)
					a.Files[i].Data = []byte(got)
				}
			}
			if flag.Lookup("rewrite").Value.String() == "true" {
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan differs (-want +got):\n%s", diff)
			}
		})
	}
}

func scenario(t *testing.T, a *txtar.Archive) plan.Input {
	t.Helper()
	var pods []podYAML
	var cat catalogYAML
	for _, f := range a.Files {
		var err error
		switch f.Name {
		case "pods.yaml":
			err = yaml.UnmarshalStrict(f.Data, &pods)
		case "catalog.yaml":
			err = yaml.UnmarshalStrict(f.Data, &cat)
		case "want":
		default:
			t.Fatalf("unknown section %s", f.Name)
		}
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
	}
	in := cat.input(t)
	keys := map[string]string{}
	for _, p := range pods {
		pod := p.pod()
		c := plan.Class{Key: plan.ClassKey(pod), Pod: pod}
		keys[p.Name] = c.Key
		for i := range max(p.Count, 1) {
			name := fmt.Sprintf("%s-%d", p.Name, i)
			c.Pods = append(c.Pods, catalog.PodRef{Namespace: pod.Namespace, Name: name, UID: name})
		}
		in.Classes = append(in.Classes, c)
	}
	for _, r := range cat.Rejected {
		rejection := plan.Rejection{
			ClassKey: keys[r.Pod], Node: r.Node, NodePool: r.Pool, InstanceType: r.Type, Zone: r.Zone,
			CapacityType: r.CapacityType, MaxPerNode: r.MaxPerNode, Reason: r.Reason,
		}
		for _, w := range r.With {
			rejection.With = append(rejection.With, keys[w])
		}
		in.Rejected = append(in.Rejected, rejection)
	}
	return in
}

func (p podYAML) pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.Name, Labels: p.Labels}, Spec: p.Spec}
	if p.Namespace != "" {
		pod.Namespace = p.Namespace
	}
	if len(p.Requests) > 0 {
		c := corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Requests: list(p.Requests)}}
		pod.Spec.Containers = append([]corev1.Container{c}, pod.Spec.Containers...)
	}
	return pod
}

func list(in map[string]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for k, v := range in {
		out[corev1.ResourceName(k)] = resource.MustParse(v)
	}
	return out
}

func taints(tb testing.TB, in []string) []corev1.Taint {
	tb.Helper()
	var out []corev1.Taint
	for _, s := range in {
		kv, effect, ok := strings.Cut(s, ":")
		if !ok {
			tb.Fatalf("taint %q: want KEY=VALUE:EFFECT", s)
		}
		k, v, _ := strings.Cut(kv, "=")
		out = append(out, corev1.Taint{Key: k, Value: v, Effect: corev1.TaintEffect(effect)})
	}
	return out
}

func (c catalogYAML) input(tb testing.TB) plan.Input {
	tb.Helper()
	in := plan.Input{
		Now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
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
			Taints: taints(tb, p.Taints), Limits: list(p.Limits), Usage: list(p.Usage), Ready: p.NotReady == "", NotReadyMessage: p.NotReady,
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
		node := plan.Node{Name: n.Name, Labels: n.Labels, Taints: taints(tb, n.Taints)}
		if n.Free != nil {
			node.Free = list(n.Free)
		}
		if n.InFlight {
			in.Catalog.InFlight[n.Name] = catalog.InFlightNode{NodeClaim: n.Name, NodePool: "default"}
		}
		for _, p := range n.Pods {
			for range max(p.Count, 1) {
				node.Pods = append(node.Pods, p.pod())
			}
		}
		in.Nodes = append(in.Nodes, node)
	}
	for _, d := range c.DaemonSets {
		in.DaemonSets = append(in.DaemonSets, daemonSet(d))
	}
	return in
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

// instanceType reads "NAME ARCH CPU MEMORY [pods=N] [gpu=N] [od=PRICE] [spot=PRICE[,PRICE...]]", spot prices by zone.
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
	var od string
	var spot []string
	for _, x := range f[4:] {
		k, v, _ := strings.Cut(x, "=")
		switch k {
		case "pods":
			resources["pods"] = v
		case "gpu":
			resources["nvidia.com/gpu"] = v
		case "od":
			od = v
		case "spot":
			spot = strings.Split(v, ",")
		default:
			tb.Fatalf("type %q: what is %q?", s, x)
		}
	}
	it.Capacity, it.Allocatable = list(resources), list(resources)
	add := func(zone, capacityType, price string) {
		v, err := strconv.ParseFloat(price, 64)
		if err != nil {
			tb.Fatalf("type %q: %v", s, err)
		}
		o := catalog.Offering{Zone: zone, ZoneID: "use1-az" + zone[len(zone)-1:], CapacityType: capacityType, Price: v, Available: true}
		for _, u := range c.Unavailable {
			if want := strings.Fields(u); slices.Equal(want[:3], []string{f[0], capacityType, zone}) {
				o.Available, o.UnavailableUntil = false, time.Date(2026, 3, 1, 10, 3, 0, 0, time.UTC)
			}
		}
		it.Offerings = append(it.Offerings, o)
	}
	for i, z := range c.Zones {
		if od != "" {
			add(z, "on-demand", od)
		}
		if len(spot) > 0 {
			add(z, "spot", spot[min(i, len(spot)-1)])
		}
	}
	return it
}

package plan_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
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

	Annotations   map[string]string                 `json:"annotations"`
	Priority      *int32                            `json:"priority"`
	Status        corev1.PodStatus                  `json:"status"`
	DefaultSpread []corev1.TopologySpreadConstraint `json:"defaultSpread"`
	AddedAffinity *corev1.NodeSelector              `json:"addedAffinity"`
	Volumes       []struct {
		Claim, Driver, Problem string
		Zones                  []string
	} `json:"volumes"`
}

// catalogYAML is catalog.yaml; testdata/README.md explains it.
type catalogYAML struct {
	Zones       []string   `json:"zones"`
	Pools       []poolYAML `json:"pools"`
	Types       []string   `json:"types"`
	Unavailable []string   `json:"unavailable"`
	Probation   []string   `json:"probation"`
	Unsettled   []string   `json:"unsettled"`
	Nodes       []nodeYAML `json:"nodes"`
	DaemonSets  []podYAML  `json:"daemonsets"`
	// Preferences is the share that they may cost.
	Preferences float64                      `json:"preferences"`
	BestEffort  bool                         `json:"minValuesBestEffort"`
	Namespaces  map[string]map[string]string `json:"namespaces"`
	// Commitments are those of the account, as a file has them.
	Commitments []commitment.Entry `json:"commitments"`
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
	NodeClass    string            `json:"nodeClass"`
	// StartupTaints are those that somebody takes away before the node is initialized.
	StartupTaints []string `json:"startupTaints"`
}

type nodeYAML struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels"`
	Taints   []string          `json:"taints"`
	Free     map[string]string `json:"free"`
	InFlight bool              `json:"inFlight"`
	// Expected is TYPE CAPACITY-TYPE ZONE of a node in flight that EC2 has not launched yet.
	Expected string `json:"expected"`
	// Standby is the buffer for which it sleeps.
	Standby string `json:"standby"`
	// Attachable volumes by CSI driver.
	Attachable map[string]int64 `json:"attachable"`
	Pods       []podYAML        `json:"pods"`
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
			p := plan.Make(t.Context(), in)
			got := show(t, in, p)
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
		c := plan.Class{Key: plan.ClassKey(pod), Pod: pod, DefaultSpread: p.DefaultSpread, AddedAffinity: p.AddedAffinity, Volumes: p.volumes()}
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
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.Name, Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec, Status: p.Status}
	pod.Spec.Priority = p.Priority
	if p.Namespace != "" {
		pod.Namespace = p.Namespace
	}
	if len(p.Requests) > 0 {
		c := corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Requests: list(p.Requests)}}
		pod.Spec.Containers = append([]corev1.Container{c}, pod.Spec.Containers...)
	}
	return pod
}

func (p podYAML) volumes() []plan.Volume {
	var out []plan.Volume
	for _, v := range p.Volumes {
		x := plan.Volume{Claim: v.Claim, Driver: v.Driver, Problem: v.Problem}
		if len(v.Zones) > 0 {
			x.Terms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: v.Zones,
			}}}}
		}
		out = append(out, x)
	}
	return out
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

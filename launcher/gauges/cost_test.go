package gauges_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/gauges"
	"github.com/slipway-k8s/slipway/launcher/index"
)

func pool(name string) *karpv1.NodePool {
	return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func claimOf(name, pool, class, capacityType, providerID string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		karpv1.NodePoolLabelKey: pool, corev1.LabelInstanceTypeStable: "m6i.large", corev1.LabelTopologyZone: "us-east-1a",
		karpv1.CapacityTypeLabelKey: capacityType,
	}}}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: class}
	c.Status.ProviderID = providerID
	return c
}

// costs is a configuration with what an API server has.
func costs(api client.Reader, leading func() bool, types gauges.Types) gauges.CostConfig {
	return gauges.CostConfig{Reader: api, Cache: index.List(api), Leading: leading, Types: types}
}

// The cost of a NodePool follows its nodes and their prices. A NodeClaim that was not launched costs nothing, nor does one of another provider or a pool
// without nodes, and a class without prices does not hide others. A replica that does not lead reports nothing.
func TestCost(t *testing.T) {
	agents := pool("default")
	agents.Annotations = map[string]string{catalog.NodeCostAnnotation: "0.5"}
	theirs := claimOf("auto", "empty", "good", "spot", "aws:///us-east-1a/i-4")
	theirs.Spec.NodeClassRef.Group = "eks.amazonaws.com"
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
		agents, pool("empty"), pool("broken"),
		&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "good"}}, &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "bad"}},
		claimOf("a", "default", "good", "spot", "aws:///us-east-1a/i-1"), claimOf("b", "default", "good", "on-demand", "aws:///us-east-1a/i-2"),
		theirs, claimOf("planned", "default", "good", "on-demand", ""), claimOf("c", "broken", "bad", "spot", "aws:///us-east-1a/i-3"),
	).Build()
	spot, leading := 0.03, true
	types := func(_ context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
		if class.Name == "bad" {
			return nil, errors.New("no subnets")
		}
		return []catalog.InstanceType{{Name: "m6i.large", Offerings: []catalog.Offering{
			{Zone: "us-east-1a", CapacityType: "spot", Price: spot},
			{Zone: "us-east-1a", CapacityType: "on-demand", Price: 0.125},
			{Zone: "us-east-1b", CapacityType: "spot", Price: 9},
		}}}, nil
	}
	cost, err := gauges.NewCost(costs(api, func() bool { return leading }, types))
	if err != nil {
		t.Fatal(err)
	}
	const head = "# HELP karpenter_nodepools_cost_total What the nodes of a NodePool cost, in USD per hour, at current prices: instances, volumes, addresses, surplus CPU of burstable instances and what the NodePool declares.\n# TYPE karpenter_nodepools_cost_total gauge\n"
	holds := func(want string) {
		t.Helper()
		if err := testutil.CollectAndCompare(cost, strings.NewReader(want), "karpenter_nodepools_cost_total"); err != nil {
			t.Error(err)
		}
	}
	holds(head + `karpenter_nodepools_cost_total{nodepool="broken"} 0
karpenter_nodepools_cost_total{nodepool="default"} 1.155
karpenter_nodepools_cost_total{nodepool="empty"} 0
`)
	spot = 0.0625
	if err := api.Delete(t.Context(), claimOf("b", "default", "good", "on-demand", "")); err != nil {
		t.Fatal(err)
	}
	holds(head + `karpenter_nodepools_cost_total{nodepool="broken"} 0
karpenter_nodepools_cost_total{nodepool="default"} 0.5625
karpenter_nodepools_cost_total{nodepool="empty"} 0
`)
	leading = false
	holds("")
	if _, err := gauges.NewCost(gauges.CostConfig{}); err == nil {
		t.Error("no error without a cache")
	}
}

// A burstable node costs what its pods are assumed to use beyond its baseline.
func TestCostOfBurstable(t *testing.T) {
	half := pool("half")
	half.Annotations = map[string]string{catalog.BurstUseAnnotation: "50"}
	objects := []client.Object{half, pool("all"), &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "good"}}}
	for _, name := range []string{"half", "all"} {
		c := claimOf(name, name, "good", "spot", "aws:///us-east-1a/i-1")
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1400m")}
		objects = append(objects, c)
	}
	types := func(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
		return []catalog.InstanceType{{
			Name: "m6i.large", Charges: catalog.Charges{Volumes: 0.02, BaselineCPU: 400, SurplusCPU: 0.05},
			Offerings: []catalog.Offering{{Zone: "us-east-1a", CapacityType: "spot", Price: 0.12}},
		}}, nil
	}
	cost, err := gauges.NewCost(costs(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build(), func() bool { return true }, types))
	if err != nil {
		t.Fatal(err)
	}
	got, err := testutil.CollectAndFormat(cost, expfmt.TypeTextPlain, "karpenter_nodepools_cost_total")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{nodepool="all"} 0.17`, `{nodepool="half"} 0.135`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is missing in:\n%s", want, got)
		}
	}
}

// Every replica reports its build.
func TestBuild(t *testing.T) {
	got, err := testutil.CollectAndFormat(gauges.Build("v1.2.3"), expfmt.TypeTextPlain, "karpenter_build_info")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`version="v1.2.3"`, `goversion="` + runtime.Version() + `"`, `goarch="` + runtime.GOARCH + `"`, "} 1"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is missing in:\n%s", want, got)
		}
	}
}

// Every NodePool has a series for each part. The parts but expected interruptions are the total, and a stopped instance costs its volumes.
func TestCostByPart(t *testing.T) {
	agents := pool("default")
	agents.Annotations = map[string]string{catalog.NodeCostAnnotation: "0.5"}
	asleep := claimOf("asleep", "standby", "good", "on-demand", "aws:///us-east-1a/i-2")
	asleep.Annotations = map[string]string{catalog.StandbyAnnotation: "buffer", catalog.StandbyStateAnnotation: "asleep/2026-03-04T12:00:00Z"}
	spot := claimOf("spot", "default", "good", "spot", "aws:///us-east-1a/i-1")
	spot.Status.NodeName = "n"
	spot.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1400m")}
	objects := []client.Object{agents, pool("standby"), pool("empty"), &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "good"}}, asleep, spot}
	for name, change := range map[string]func(*corev1.Pod){
		"a": func(*corev1.Pod) {}, "b": func(*corev1.Pod) {},
		"elsewhere": func(p *corev1.Pod) { p.Spec.NodeName = "m" },
		"done":      func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"daemon": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
		},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "n"}}
		change(pod)
		objects = append(objects, pod)
	}
	types := func(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
		return []catalog.InstanceType{{
			Name: "m6i.large", Charges: catalog.Charges{Volumes: 0.02, PublicIPv4: 0.005, BaselineCPU: 400, SurplusCPU: 0.05},
			Offerings: []catalog.Offering{
				{Zone: "us-east-1a", CapacityType: "spot", Price: 0.125, LossPerPod: 0.001}, {Zone: "us-east-1a", CapacityType: "on-demand", Price: 0.225},
			},
		}}, nil
	}
	cost, err := gauges.NewCost(costs(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build(), func() bool { return true }, types))
	if err != nil {
		t.Fatal(err)
	}
	got, err := testutil.CollectAndFormat(cost, expfmt.TypeTextPlain, "karpenter_nodepools_cost_total", "slipway_nodepool_cost")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(got)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	want := strings.Fields(`karpenter_nodepools_cost_total{nodepool="default"}=0.675 karpenter_nodepools_cost_total{nodepool="empty"}=0 karpenter_nodepools_cost_total{nodepool="standby"}=0.02
		slipway_nodepool_cost{nodepool="default",part="burst"}=0.05 slipway_nodepool_cost{nodepool="default",part="declared"}=0.5
		slipway_nodepool_cost{nodepool="default",part="instance"}=0.1 slipway_nodepool_cost{nodepool="default",part="interruptions"}=0.002
		slipway_nodepool_cost{nodepool="default",part="public_ipv4"}=0.005 slipway_nodepool_cost{nodepool="default",part="volumes"}=0.02
		slipway_nodepool_cost{nodepool="empty",part="burst"}=0 slipway_nodepool_cost{nodepool="empty",part="declared"}=0
		slipway_nodepool_cost{nodepool="empty",part="instance"}=0 slipway_nodepool_cost{nodepool="empty",part="interruptions"}=0
		slipway_nodepool_cost{nodepool="empty",part="public_ipv4"}=0 slipway_nodepool_cost{nodepool="empty",part="volumes"}=0
		slipway_nodepool_cost{nodepool="standby",part="burst"}=0 slipway_nodepool_cost{nodepool="standby",part="declared"}=0
		slipway_nodepool_cost{nodepool="standby",part="instance"}=0 slipway_nodepool_cost{nodepool="standby",part="interruptions"}=0
		slipway_nodepool_cost{nodepool="standby",part="public_ipv4"}=0 slipway_nodepool_cost{nodepool="standby",part="volumes"}=0.02`)
	for i := range want {
		want[i] = strings.Replace(want[i], "}=", "} ", 1)
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

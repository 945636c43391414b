package gauges_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/gauges"
	"github.com/slipway-k8s/slipway/launcher/index"
)

func list(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

func pod(name, node, cpu string, owner ...metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: owner}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list(cpu), Limits: list(cpu)}}}
	p.Status.Phase = corev1.PodRunning
	return p
}

// cluster is a configuration with what an API server has, of a replica that leads.
func cluster(api client.Reader) gauges.Config {
	return gauges.Config{Reader: api, Cache: index.List(api), Leading: func() bool { return true }}
}

// What nodes have and pods ask for, under the names and labels that dashboards ask for.
func TestCollector(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
		karpv1.NodePoolLabelKey: "default", corev1.LabelInstanceTypeStable: "m6i.large", corev1.LabelTopologyZone: "us-east-1a",
	}}}
	node.Status.Capacity, node.Status.Allocatable = list("4"), list("3")
	ended := pod("ended", "n", "1")
	ended.Status.Phase = corev1.PodSucceeded
	objects := []client.Object{
		node, pod("web", "n", "1"), pod("waits", "", "1"), ended,
		pod("agent", "n", "500m", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}),
	}
	collector, err := gauges.New(cluster(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()))
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(collector); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				switch l.GetName() {
				case "resource_type", "nodepool", "zone", "instance_type", "name", "scheduled":
					key += " " + l.GetValue()
				}
			}
			got[strings.TrimSpace(key)] = m.GetGauge().GetValue()
		}
	}
	for key, want := range map[string]float64{
		"karpenter_nodes_allocatable m6i.large default cpu us-east-1a":           3,
		"karpenter_nodes_system_overhead m6i.large default cpu us-east-1a":       1,
		"karpenter_nodes_total_pod_requests m6i.large default cpu us-east-1a":    1.5,
		"karpenter_nodes_total_pod_limits m6i.large default cpu us-east-1a":      1.5,
		"karpenter_nodes_total_daemon_requests m6i.large default cpu us-east-1a": 0.5,
		"karpenter_nodes_total_daemon_limits m6i.large default cpu us-east-1a":   0.5,
		"karpenter_cluster_utilization_percent cpu":                              50,
		"karpenter_cluster_state_node_count":                                     1,
		"karpenter_pods_state m6i.large web default true us-east-1a":             1,
		"karpenter_pods_state  waits  false":                                     1,
	} {
		if value, ok := got[key]; !ok || value != want {
			t.Errorf("%s is %v, want %v of %v", key, value, want, got)
		}
	}
}

// A pod's way is timed once: from its creation until it is bound, and until it is ready.
func TestTimes(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: scheme.Scheme}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		karpv1.NodePoolLabelKey: "default", corev1.LabelTopologyZone: "us-east-1a",
	}}}
	registry := prometheus.NewPedanticRegistry()
	times, err := gauges.NewTimes(cacheOf{informers, contents{claims: []karpv1.NodeClaim{*claim}}}, func() bool { return true }, registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := times.Watch(context.Background()); err != nil {
		t.Fatal(err)
	}
	informer, err := informers.GetInformer(context.Background(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	created := time.Unix(1000, 0)
	at := func(kinds ...corev1.PodConditionType) *corev1.Pod {
		p := pod("web", "n", "1")
		p.CreationTimestamp = metav1.NewTime(created)
		for i, kind := range kinds {
			since := metav1.NewTime(created.Add(time.Duration(i+1) * 2 * time.Second))
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: since})
		}
		return p
	}
	ways := []*corev1.Pod{at(), at(corev1.PodScheduled), at(corev1.PodScheduled, corev1.PodReady)}
	ways = append(ways, ways[2])
	for i := range ways[1:] {
		informer.(*controllertest.FakeInformer).Update(ways[i], ways[i+1])
	}
	countsNew(t, informers)
	counters := `# HELP karpenter_nodeclaims_created_total NodeClaims that were created, by why, NodePool, and whether minValues were relaxed.
# TYPE karpenter_nodeclaims_created_total counter
karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="default",reason="provisioned"} 1
# HELP karpenter_nodes_created_total Nodes that registered, by NodePool and zone.
# TYPE karpenter_nodes_created_total counter
karpenter_nodes_created_total{nodepool="default",zone="us-east-1a"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(counters), "karpenter_nodeclaims_created_total", "karpenter_nodes_created_total"); err != nil {
		t.Error(err)
	}
	want := `# HELP karpenter_pods_startup_duration_seconds Seconds from a pod's creation until it is ready.
# TYPE karpenter_pods_startup_duration_seconds summary
karpenter_pods_startup_duration_seconds{quantile="0"} 4
karpenter_pods_startup_duration_seconds{quantile="0.5"} 4
karpenter_pods_startup_duration_seconds{quantile="0.9"} 4
karpenter_pods_startup_duration_seconds{quantile="0.99"} 4
karpenter_pods_startup_duration_seconds{quantile="1"} 4
karpenter_pods_startup_duration_seconds_sum 4
karpenter_pods_startup_duration_seconds_count 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "karpenter_pods_startup_duration_seconds"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(registry, "karpenter_pods_bound_duration_seconds"); n != 1 {
		t.Errorf("%d histograms of binding", n)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := gauges.New(gauges.Config{}); err == nil {
		t.Error("no error")
	}
	if _, err := gauges.NewTimes(nil, nil, nil); err == nil {
		t.Error("no error")
	}
}

// countsNew adds a NodeClaim, and registers a Node.
func countsNew(t *testing.T, informers *informertest.FakeInformers) {
	t.Helper()
	claims, err := informers.GetInformer(t.Context(), &karpv1.NodeClaim{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := informers.GetInformer(t.Context(), &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	claims.(*controllertest.FakeInformer).Add(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}})
	was := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-1"}}
	is := was.DeepCopy()
	// What the kubelet writes into the Node's labels does not count: the NodeClaim has the NodePool and the zone.
	is.Labels = map[string]string{karpv1.NodeRegisteredLabelKey: "true", karpv1.NodePoolLabelKey: "another", corev1.LabelTopologyZone: "nowhere"}
	nodes.(*controllertest.FakeInformer).Update(was, is)
	nodes.(*controllertest.FakeInformer).Update(is, is)
	nodes.(*controllertest.FakeInformer).Update(&corev1.Node{}, &corev1.Node{ObjectMeta: is.ObjectMeta})
}

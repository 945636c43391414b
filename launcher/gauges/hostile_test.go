package gauges_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/gauges"
)

// contents of a cache, as they are: a fake client would make them valid.
type contents struct {
	nodes  []corev1.Node
	pods   []corev1.Pod
	claims []karpv1.NodeClaim
}

// Get implements client.Reader.
func (c contents) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// List implements client.Reader, whatever is selected.
func (c contents) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		l.Items = c.nodes
	case *corev1.PodList:
		l.Items = c.pods
	case *karpv1.NodeClaimList:
		l.Items = c.claims
	}
	return nil
}

// cacheOf has informers that a test drives, and contents.
type cacheOf struct {
	*informertest.FakeInformers
	contents
}

// Get implements client.Reader.
func (c cacheOf) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.contents.Get(ctx, key, o, opts...)
}

// List implements client.Reader.
func (c cacheOf) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return c.contents.List(ctx, l, opts...)
}

const (
	// many is a number of entries that a user may write.
	many = 4000
	// garbage is no UTF-8.
	garbage = "\xff\xfe"
)

func long(prefix string, i int) string {
	name := fmt.Sprintf("%s%d", prefix, i)
	return name + strings.Repeat("x", 253-len(name))
}

// hostileNode returns a Node as a hostile kubelet may write it: the API server validates only its labels.
func hostileNode(name string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for label := range karpv1.WellKnownLabels {
		node.Labels[label] = strings.Repeat("v", 63)
	}
	node.Status.Phase = corev1.NodePhase(strings.Repeat(garbage, many))
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"), "x.io/a-b": resource.MustParse("1"), "x.io/a_b": resource.MustParse("1")}
	for i := range many {
		node.Status.Capacity[corev1.ResourceName(long("x", i)+".io/device-"+fmt.Sprint(i))] = resource.MustParse("1")
		node.Status.Conditions = append(node.Status.Conditions,
			corev1.NodeCondition{Type: corev1.NodeConditionType(long("T", i/2) + garbage), Status: "\xff", Reason: long("R", i) + garbage},
			corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"})
	}
	node.Status.Allocatable = node.Status.Capacity
	return node
}

// hostilePod returns a pod as a hostile tenant may write it: any number of resources with long names, with amounts of zero, and two that
// have the same name in metrics.
func hostilePod(name, node string) corev1.Pod {
	p := pod(name, node, "1", metav1.OwnerReference{APIVersion: "v1", Kind: strings.Repeat("Kind", many), Name: garbage})
	p.Status.Phase = corev1.PodPending
	asked := p.Spec.Containers[0].Resources
	for i := range many {
		asked.Requests[corev1.ResourceName(long("x", i)+".io/zero")] = resource.Quantity{}
		asked.Requests[corev1.ResourceName(fmt.Sprintf("x.io/one-%d", i))] = resource.MustParse("1")
	}
	for _, list := range []corev1.ResourceList{asked.Requests, asked.Limits} {
		for _, collides := range []corev1.ResourceName{"x.io/a-b", "x.io/a_b", "x.io/c-d", "x.io/c_d"} {
			list[collides] = resource.MustParse("0")
		}
		list["example.com/gpu-a"], list["example.com/gpu_a"] = resource.MustParse("1"), resource.MustParse("2")
	}
	return *p
}

// scrape scrapes as Prometheus does; it returns the size of the answer and its families.
func scrape(t *testing.T, registry *prometheus.Registry) (size int, families map[string]*dto.MetricFamily) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("/metrics answers %d: %.500s", answer.Code, answer.Body)
	}
	size = answer.Body.Len()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(answer.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return size, families
}

// Whatever tenants and one kubelet write, a scrape is answered and stays small.
func TestHostileCluster(t *testing.T) {
	honest := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "honest"}}
	honest.Status.Capacity = corev1.ResourceList{
		"cpu": resource.MustParse("4"), "example.com/gpu-a": resource.MustParse("8"), "example.com/gpu_a": resource.MustParse("8"),
	}
	honest.Status.Allocatable = honest.Status.Capacity
	c := contents{
		nodes:  []corev1.Node{honest, hostileNode(long("hostile-", 0))},
		claims: []karpv1.NodeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}},
	}
	for i := range 100 {
		c.pods = append(c.pods, hostilePod(long("pod-", i), []string{"honest", c.nodes[1].Name, ""}[i%3]))
	}
	registry, informers := prometheus.NewPedanticRegistry(), &informertest.FakeInformers{Scheme: scheme.Scheme}
	collector, err := gauges.New(cluster(c))
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Register(collector); err != nil {
		t.Fatal(err)
	}
	times, err := gauges.NewTimes(cacheOf{informers, c}, func() bool { return true }, registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := times.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	keepsChanging(t, informers)
	size, families := scrape(t, registry)
	if size > 1<<20 {
		t.Errorf("a scrape has %d bytes", size)
	}
	t.Logf("a scrape has %d bytes", size)
	got := map[string]float64{}
	for _, m := range families["karpenter_nodes_total_pod_requests"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["node_name"] == "honest" {
			got[labels["resource_type"]] = m.GetGauge().GetValue()
		}
	}
	if diff := cmp.Diff(map[string]float64{"cpu": 34, "example.com/gpu_a": 3 * 34}, got); diff != "" {
		t.Errorf("requests of the honest node's pods (-want +got):\n%s", diff)
	}
	if n := len(families["karpenter_pods_state"].GetMetric()); n != len(c.pods) {
		t.Errorf("the states of %d pods are reported, there are %d", n, len(c.pods))
	}
}

// keepsChanging lets a kubelet change its Node's labels and conditions again and again.
func keepsChanging(t *testing.T, informers *informertest.FakeInformers) {
	t.Helper()
	informer, err := informers.GetInformer(t.Context(), &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	was := &corev1.Node{}
	for i := range many {
		is := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "hostile", Labels: map[string]string{
			karpv1.NodePoolLabelKey: fmt.Sprint(i), corev1.LabelTopologyZone: fmt.Sprint(i), karpv1.NodeInitializedLabelKey: fmt.Sprint(i),
		}}}
		is.Spec.ProviderID = "aws:///us-east-1a/i-1"
		if i%2 == 1 {
			is.Labels[karpv1.NodeRegisteredLabelKey] = "true"
		}
		for j, kind := range []corev1.NodeConditionType{corev1.NodeReady, "KernelDeadlock", corev1.NodeConditionType(fmt.Sprint("T", i, garbage)), "Same"} {
			is.Status.Conditions = append(is.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionStatus([]string{"True", "False", fmt.Sprint(i)}[(i+j)%3]), Reason: fmt.Sprint("R", i, garbage),
			})
		}
		informer.(*controllertest.FakeInformer).Update(was, is)
		was = is
	}
}

package prefetch_test

import (
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/prefetch"
)

type world struct {
	api     client.Client
	subject *prefetch.Controller
	metrics *prometheus.Registry
	claim   *karpv1.NodeClaim
	node    *corev1.Node
	class   *awsv1.EC2NodeClass
	// buffers are pods of standby buffers, by the buffers' UIDs.
	buffers map[string]*corev1.Pod
}

// newWorld returns a claim with two promised pods, its Node, and another node that has reported the size of an image.
func newWorld(t *testing.T, change func(*world)) *world {
	t.Helper()
	w := &world{metrics: prometheus.NewRegistry()}
	w.class = &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	w.claim = &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{
			catalog.PodsAnnotation: `[{"uids":["a","b","former"]}]`,
		}},
		Spec:   karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Name: "default"}},
		Status: karpv1.NodeClaimStatus{ProviderID: "aws:///z/i-1"},
	}
	w.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "aws:///z/i-1"}}
	a, b := pod("r.io/a:1"), pod("r.io/b:1", "r.io/c:1")
	a.ObjectMeta, b.ObjectMeta = metav1.ObjectMeta{Namespace: "x", Name: "a", UID: "a"}, metav1.ObjectMeta{Namespace: "x", Name: "b", UID: "b"}
	change(w)
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(w.class, w.claim, w.node, a, b)
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { builder.WithIndex(o, field, value) })
	w.api = builder.Build()
	var err error
	w.subject, err = prefetch.New(prefetch.Config{
		Client: w.api, Pods: index.ListPods(w.api), Guard: leadershiptest.Always{}, Ours: func(*karpv1.NodeClaim) bool { return true }, Registerer: w.metrics,
		Disk: func(buffer string) (*corev1.Pod, time.Duration) { return w.buffers[buffer], time.Minute },
	})
	if err != nil {
		t.Fatal(err)
	}
	other := &corev1.Node{}
	other.Status.Images = []corev1.ContainerImage{{Names: []string{"r.io/b:1"}, SizeBytes: 1 << 20}}
	w.subject.Seen(t.Context(), other)
	return w
}

// look reconciles and returns the annotation, or "none".
func (w *world) look(t *testing.T) string {
	t.Helper()
	if _, err := w.subject.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := w.api.Get(t.Context(), types.NamespacedName{Name: "n"}, node); err != nil {
		t.Fatal(err)
	}
	if text, ok := node.Annotations[catalog.PrefetchAnnotation]; ok {
		return text
	}
	return "none"
}

func TestListOnTheNode(t *testing.T) {
	w := newWorld(t, func(*world) {})
	requests := w.subject.Seen(t.Context(), w.node)
	if len(requests) != 1 || requests[0].Name != "c" {
		t.Errorf("the Node leads to %v", requests)
	}
	if got, want := w.look(t), "r.io/b:1,r.io/a:1,r.io/c:1"; got != want {
		t.Errorf("list %q, want %q", got, want)
	}
	b := &corev1.Pod{}
	if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "x", Name: "b"}, b); err != nil {
		t.Fatal(err)
	}
	b.Spec.NodeName = "elsewhere"
	if err := w.api.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := w.look(t); got != "r.io/a:1" {
		t.Errorf("list %q after a pod went elsewhere", got)
	}
	listed, err := testutil.GatherAndCount(w.metrics)
	if err != nil || listed != 4 {
		t.Errorf("%d series, %v", listed, err)
	}
}

// A Node gets its list when it is created, and is not written again.
func TestListOnANewNode(t *testing.T) {
	w := newWorld(t, func(w *world) { w.node.Spec.ProviderID = "aws:///z/i-2" })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: corev1.NodeSpec{ProviderID: "aws:///z/i-1"}}
	created := w.subject.Prepare(t.Context(), w.claim, node)
	if got, want := node.Annotations[catalog.PrefetchAnnotation], "r.io/b:1,r.io/a:1,r.io/c:1"; got != want {
		t.Errorf("list %q, want %q", got, want)
	}
	if err := w.api.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	created()
	version := node.ResourceVersion
	w.look(t)
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || node.ResourceVersion != version {
		t.Errorf("version %s, want %s, %v", node.ResourceVersion, version, err)
	}
	if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(`
# HELP slipway_prefetch_images_total Images of promised pods of booting nodes, by what became of them.
# TYPE slipway_prefetch_images_total counter
slipway_prefetch_images_total{outcome="listed"} 3
slipway_prefetch_images_total{outcome="pull_secret"} 0
slipway_prefetch_images_total{outcome="surplus"} 0
slipway_prefetch_images_total{outcome="unreadable"} 0
`)); err != nil {
		t.Error(err)
	}
}

// The node of a standby buffer has no promised pods, and pulls the images of the buffer's own until it is stopped.
func TestListOfAStandbyBuffer(t *testing.T) {
	standby := func(state string) func(*world) {
		return func(w *world) {
			w.claim.Annotations = map[string]string{catalog.StandbyAnnotation: "buffer"}
			if state != "" {
				w.claim.Annotations[catalog.StandbyStateAnnotation] = state
			}
			w.buffers = map[string]*corev1.Pod{"buffer": pod("r.io/web:1", "r.io/b:1"), "other": pod("r.io/other:1")}
		}
	}
	if got, want := newWorld(t, standby("")).look(t), "r.io/b:1,r.io/web:1"; got != want {
		t.Errorf("list %q, want %q", got, want)
	}
	if got := newWorld(t, standby("awake/2026-01-01T00:00:00Z")).look(t); got != "none" {
		t.Errorf("list %q of a node that was woken", got)
	}
	unknown := newWorld(t, func(w *world) { standby("")(w); w.buffers = nil })
	if got := unknown.look(t); got != "" {
		t.Errorf("list %q without the buffer", got)
	}
}

func TestNoList(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a class that is off":      func(w *world) { w.class.Annotations = map[string]string{catalog.PrefetchAnnotation: "off"} },
		"Bottlerocket":             func(w *world) { w.class.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest" },
		"no promises":              func(w *world) { delete(w.claim.Annotations, catalog.PodsAnnotation) },
		"a class that is gone":     func(w *world) { w.claim.Spec.NodeClassRef.Name = "gone" },
		"a claim without a class":  func(w *world) { w.claim.Spec.NodeClassRef = nil },
		"no instance":              func(w *world) { w.claim.Status.ProviderID = "" },
		"a Node of another":        func(w *world) { w.node.Spec.ProviderID = "aws:///z/i-2" },
		"a claim that has settled": func(w *world) { w.claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized) },
		"a Node that is Ready": func(w *world) {
			w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newWorld(t, change).look(t); got != "none" {
				t.Errorf("list %q", got)
			}
		})
	}
}

// A claim with damaged promises joins like any other.
func TestBrokenPromises(t *testing.T) {
	w := newWorld(t, func(w *world) { w.claim.Annotations[catalog.PodsAnnotation] = "?" })
	if got := w.look(t); got != "" {
		t.Errorf("list %q", got)
	}
}

func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := newWorld(t, func(*world) {}).subject.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	if _, err := prefetch.New(prefetch.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

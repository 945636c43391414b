package reject_test

import (
	"context"
	"fmt"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/reject"
)

// world is an API server in memory with one node, its claim and its class, and a Controller.
type world struct {
	t       *testing.T
	api     client.Client
	subject *reject.Controller
	trace   []string
	ours    bool
}

// Context implements leadership.Guard: it leads.
func (w *world) Context(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, true
}

// Wait implements leadership.Guard.
func (w *world) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, nil
}

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("event %s %s: %s", o.(client.Object).GetName(), reason, fmt.Sprintf(format, args...)))
}

// Rejected implements reject.Health.
func (w *world) Rejected(_ context.Context, claim *karpv1.NodeClaim, reason, _ string) error {
	w.trace = append(w.trace, "rejected on "+claim.Name+" "+reason)
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ours: true}
	planned := list("1930m", "7Gi", "29")
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m6i.large"}, Annotations: map[string]string{
		awsv1.AnnotationEC2NodeClassHash: "h",
		catalog.PodsAnnotation: catalog.FormatPods([]catalog.PodRef{
			{Namespace: "default", Name: "proxy-1", UID: "u-proxy-1"}, {Namespace: "default", Name: "bare-1", UID: "u-bare-1"},
		}),
		catalog.BindingsAnnotation: record.FormatBindings([]record.Bindings{
			{At: "launch", UIDs: []string{"u-proxy-1"}}, {At: "scheduler", UIDs: []string{"u-bare-1"}},
		}),
	}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	claim.Status = karpv1.NodeClaimStatus{ProviderID: "aws:///z/i-1", ImageID: "ami-1", Allocatable: planned}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelInstanceTypeStable: "what-the-kubelet-says"}}}
	node.Spec.ProviderID = claim.Status.ProviderID
	node.Status.Capacity, node.Status.Allocatable = list("2", "8Gi", "29"), list("930m", "7Gi", "29")
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{awsv1.AnnotationEC2NodeClassHash: "h"}}}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim, node, class)
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	w.api = b.Build()
	var err error
	w.subject, err = reject.New(reject.Config{
		Client: w.api, Guard: w, Events: w, Health: w, Ours: func(*karpv1.NodeClaim) bool { return w.ours },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// pod creates a rejected pod and has the Controller look; it returns whether the pod is still there.
func (w *world) pod(name string, change func(*corev1.Pod)) bool {
	w.t.Helper()
	p := rejected("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 930")
	p.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: new(true)}}
	if change != nil {
		change(p)
	}
	if err := w.api.Create(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.subject.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)}); err != nil {
		w.t.Fatal(err)
	}
	err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(p), p)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

func (w *world) learned() resource.Quantity {
	w.t.Helper()
	class := &awsv1.EC2NodeClass{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
		w.t.Fatal(err)
	}
	l, ok := fromec2.SizesOf(class).Learned(class, "m6i.large", "ami-1")
	if !ok {
		return resource.Quantity{}
	}
	return l[0].Allocatable[corev1.ResourceCPU]
}

// A pod that was bound at launch found less capacity than planned: the node's capacity is recorded, and the pod is replaced, with an Event.
func TestPreBoundPodIsReplaced(t *testing.T) {
	w := newWorld(t)
	if w.pod("proxy-1", func(p *corev1.Pod) { p.UID = "u-proxy-1" }) {
		t.Error("the rejected pod is still there")
	}
	if got := w.learned(); got.String() != "930m" {
		t.Errorf("learned %s of cpu", got.String())
	}
	want := []string{
		"rejected on default-1 OutOfcpu",
		"event proxy-1 PreBoundPodRejected: It never ran and is replaced: kubelet of node n: OutOfcpu: Pod was rejected: Node didn't have " +
			"enough resource: cpu, requested: 500, used: 600, capacity: 930",
	}
	if diff := cmp.Diff(want, w.trace); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A pod that the scheduler bound is its own matter, and a pod without a controller stays as Kubernetes leaves it; both teach.
func TestOtherPodsStay(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"promised to nobody": nil,
		"without controller": func(p *corev1.Pod) { p.Name, p.UID, p.OwnerReferences = "bare-1", "u-bare-1", nil },
	} {
		w := newWorld(t)
		if !w.pod("web-1", change) {
			t.Errorf("%s: the pod was deleted", name)
		}
		if got := w.learned(); got.String() != "930m" || w.trace != nil {
			t.Errorf("%s: learned %s of cpu, did %q", name, got.String(), w.trace)
		}
	}
}

// A kubelet may reject a pod before its binding is recorded: it is checked again until the claim is initialized.
func TestRejectedBeforeTheBindingIsTold(t *testing.T) {
	w := newWorld(t)
	claim := &karpv1.NodeClaim{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "default-1"}, claim); err != nil {
		t.Fatal(err)
	}
	told := claim.Annotations[catalog.BindingsAnnotation]
	tell := func(bindings string) {
		claim.Annotations[catalog.BindingsAnnotation] = bindings
		if err := w.api.Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	look := func() (again bool) {
		r, err := w.subject.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "proxy-1"}})
		if err != nil {
			t.Fatal(err)
		}
		return r.RequeueAfter > 0
	}
	tell(record.FormatBindings([]record.Bindings{{At: "scheduler", UIDs: []string{"u-proxy-1"}}}))
	if !w.pod("proxy-1", func(p *corev1.Pod) { p.UID = "u-proxy-1" }) || !look() {
		t.Fatal("the pod is deleted, or not looked at again")
	}
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	tell(claim.Annotations[catalog.BindingsAnnotation])
	if look() {
		t.Error("looked at again though the claim is initialized")
	}
	tell(told)
	if look() {
		t.Error("looked at again though it was seen to")
	}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "proxy-1"}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the rejected pod is still there: %v", err)
	}
}

func TestClaimsOfAnother(t *testing.T) {
	w := newWorld(t)
	w.ours = false
	if !w.pod("proxy-1", func(p *corev1.Pod) { p.UID = "u-proxy-1" }) {
		t.Error("the pod was deleted")
	}
	if got := w.learned(); !got.IsZero() {
		t.Errorf("learned %s", got.String())
	}
}

func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := newWorld(t).subject.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	if _, err := reject.New(reject.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

package join_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/join"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server and an EC2 in memory, and the Controller of a process.
type world struct {
	t        *testing.T
	api      client.WithWatch
	ec2      *memory.Cloud
	instance cloud.Instance
	// refuse is the answer to the binding of a pod, by its name.
	refuse map[string]error
	// trace is what the Controller asked others to do. Pods of one node are bound beside each other.
	mu    sync.Mutex
	trace []string
	ours  bool
	// begun is what Begin returns after it has ended a claim.
	begun error
	// joined counts the calls of Health.Joined.
	joined int
	// unwell are the errors of its next calls, which count nothing.
	unwell []error
	// listed are the Nodes that were created with a list of images.
	listed []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, refuse: map[string]error{}, ours: true, ec2: memory.New(memory.Config{})}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).
		WithStatusSubresource(&karpv1.NodeClaim{}, &corev1.Node{}, &corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(ctx context.Context, c client.Client, _ string, o, sub client.Object, _ ...client.SubResourceCreateOption) error {
				if err := w.refuse[o.GetName()]; err != nil {
					return err
				}
				w.note("bind " + o.GetName())
				pod := &corev1.Pod{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), pod); err != nil {
					return err
				}
				pod.Spec.NodeName = sub.(*corev1.Binding).Target.Name
				for name, value := range sub.GetAnnotations() { // As the API server does (pkg/registry/core/pod/storage).
					metav1.SetMetaDataAnnotation(&pod.ObjectMeta, name, value)
				}
				return c.Update(ctx, pod)
			},
		})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	w.api = b.Build()
	id := w.ec2.Put(cloud.Instance{
		InstanceType: "m7g.large", Zone: "us-east-1a", PrivateDNSName: "node-1", PrivateIP: "10.0.0.1", CapacityType: "spot",
	})
	w.instance = cloud.Instance{ID: id, Zone: "us-east-1a", PrivateDNSName: "node-1"}
	return w
}

func (w *world) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, line)
}

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	w.note(fmt.Sprintf("event %s %s: %s", o.(client.Object).GetName(), reason, fmt.Sprintf(format, args...)))
}

// Enqueue implements join.Launcher.
func (w *world) Enqueue(claims ...*karpv1.NodeClaim) {
	for _, c := range claims {
		w.note("launch " + c.Name)
	}
}

// Forget implements join.Launcher.
func (w *world) Forget(uid types.UID) { w.note("forget " + string(uid)) }

// Begin implements join.Ender.
func (w *world) Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	w.note("end " + claim.Name + " " + reason)
	return errors.Join(w.api.Delete(ctx, claim), w.begun)
}

// Joined implements join.Health.
func (w *world) Joined(context.Context, *karpv1.NodeClaim) error {
	if len(w.unwell) > 0 {
		err := w.unwell[0]
		w.unwell = w.unwell[1:]
		return err
	}
	w.joined++
	return nil
}

// DidNotJoin implements join.Health.
func (w *world) DidNotJoin(_ context.Context, claim *karpv1.NodeClaim, reason, _ string) error {
	w.note("did not join " + claim.Name + " " + reason)
	return nil
}

// Rejected implements join.Health.
func (w *world) Rejected(_ context.Context, claim *karpv1.NodeClaim, reason, _ string) error {
	w.note("rejected on " + claim.Name + " " + reason)
	return nil
}

// SwitchedOff implements join.Health.
func (w *world) SwitchedOff(*karpv1.NodePool) string { return "" }

func (w *world) config() join.Config {
	binder, err := bind.NewBinder(w.api, w.api, w)
	if err != nil {
		w.t.Fatal(err)
	}
	return join.Config{
		Client: w.api, Pods: index.ListPods(w.api), Nodes: index.ListNodes(w.api), Reader: w.api, Instances: w.ec2, Launcher: w, Ender: w, Binder: binder, Guard: leadershiptest.Always{}, Events: w, KarpenterEvents: w, Health: w,
		Settings: join.Settings{BindAt: bind.Auto, Patience: record.Patience{Promised: 5 * time.Minute, Empty: 15 * time.Minute}},
		Ours:     func(*karpv1.NodeClaim) bool { return w.ours },
		Images: func(_ context.Context, _ *karpv1.NodeClaim, node *corev1.Node) func() {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, catalog.PrefetchAnnotation, "r.io/web:1")
			return func() { w.listed = append(w.listed, node.Name) }
		},
		Failed: func(c *karpv1.NodeClaim, reason, _ string) {
			w.note("failed " + c.Name + " " + reason)
		},
		Registerer: prometheus.NewRegistry(),
	}
}

func (w *world) controller() *join.Controller {
	w.t.Helper()
	c, err := join.New(w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) create(list ...client.Object) {
	w.t.Helper()
	for _, o := range list {
		if err := w.api.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// claim creates a launched claim that was recorded some time ago.
func (w *world) claim(age time.Duration, pods ...string) *karpv1.NodeClaim {
	w.t.Helper()
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "default-1", UID: "claim", CreationTimestamp: metav1.NewTime(time.Now().Add(-age)), Annotations: map[string]string{},
		Finalizers: []string{karpv1.TerminationFinalizer},
		Labels: map[string]string{
			karpv1.NodePoolLabelKey: "default", corev1.LabelTopologyZone: "us-east-1a", corev1.LabelInstanceTypeStable: "m7g.large",
		},
	}}
	var refs []catalog.PodRef
	for _, name := range pods {
		refs = append(refs, catalog.PodRef{Namespace: "default", Name: name, UID: "uid-" + name})
		s := newScenario()
		s.pod(name, nil)
		w.create(s.Slots[0].Pod)
	}
	c.Annotations[catalog.PodsAnnotation] = catalog.FormatPods(refs)
	if len(refs) > 0 {
		c.Annotations[catalog.ForPodsAnnotation] = "true"
	}
	status := newScenario().Claim.Status
	status.ProviderID = w.instance.ProviderID()
	w.create(c)
	c.Status = status
	launchedAt(c, c.CreationTimestamp.Time)
	if err := w.api.Status().Update(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) look(c *join.Controller) (time.Duration, error) {
	w.t.Helper()
	result, err := c.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "default-1"}})
	return result.RequeueAfter, err
}

// looks looks n times, without an error.
func (w *world) looks(c *join.Controller, n int) (after time.Duration) {
	w.t.Helper()
	for range n {
		var err error
		if after, err = w.look(c); err != nil {
			w.t.Fatal(err)
		}
	}
	return after
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	out := &corev1.Node{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: name}, out); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		w.t.Fatal(err)
	}
	return out
}

// kubelet posts a Ready condition.
func (w *world) kubelet(name string, ready corev1.ConditionStatus) {
	w.t.Helper()
	w.kubeletSays(name, ready, "")
}

func (w *world) kubeletSays(name string, ready corev1.ConditionStatus, message string) {
	w.t.Helper()
	n := w.node(name)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: message, LastTransitionTime: metav1.Now()}}
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = newScenario().Claim.Status.Allocatable
	}
	if err := w.api.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantTrace(want ...string) {
	w.t.Helper()
	var got []string
	for _, line := range w.trace {
		if !strings.Contains(line, " PreBound: ") && !strings.Contains(line, " BindingPlanned: ") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("trace, -want +got:\n%s", diff)
	}
	w.trace = nil
}

func (w *world) taints(n *corev1.Node) []string {
	var out []string
	for _, t := range n.Spec.Taints {
		out = append(out, t.Key)
	}
	return out
}

var errBusy = errors.New("the API server is busy")

func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := newWorld(t).controller().SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := join.New(join.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
	c := newWorld(t).config()
	c.Settings = join.Settings{}
	if _, err := join.New(c); err == nil {
		t.Error("no error without settings")
	}
}

func daemonSet(name string, affinity *corev1.Affinity) *appsv1.DaemonSet {
	out := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	out.Spec.Template.Spec.Affinity = affinity
	return out
}

func leases(w *world) []string {
	w.t.Helper()
	var list coordinationv1.LeaseList
	if err := w.api.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, l := range list.Items {
		out = append(out, fmt.Sprintf("%s/%s of %s held by %s", l.Namespace, l.Name, l.Labels[karpv1.NodePoolLabelKey], *l.Spec.HolderIdentity))
	}
	slices.Sort(out)
	return out
}

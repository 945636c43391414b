package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"golang.org/x/net/http2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// world is what one test has for itself: a namespace and NodePools whose nodes carry its name as a label and as a taint, so
// that neither its pods nor its nodes meet those of another test.
type world struct {
	t *testing.T
	*cluster
	name string
}

const worldKey = "e2e.slipway.dev/world"

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	w := &world{t: t, cluster: shared, name: name}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.nodeClass()
	return w
}

// newTenant returns another world of the test, whose pods run on nodes of the first one's NodePools.
func newTenant(t *testing.T, name string) *world {
	t.Helper()
	w := newWorld(t, name)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		w.clear(ctx)
	})
	return w
}

// clear deletes the test's namespace with its pods: they must not wait for nodes that will not come.
func (w *world) clear(ctx context.Context) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	if err := persist(ctx, func() error { return client.IgnoreNotFound(w.client.Delete(ctx, namespace)) }); err != nil {
		w.t.Error(err)
	}
}

// persist tries again what a busy API server has not answered, or has lost the connection of.
func persist(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// passes reports whether an error is that of a busy API server, or of a namespace that is new.
func passes(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || errors.As(err, &http2.StreamError{}) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account")
}

// cleanupContext outlives the test's own, which ends before its clean-up begins.
func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), mostPatience)
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		again := false
		err := persist(w.t.Context(), func() error {
			err := w.client.Create(w.t.Context(), obj)
			if again && apierrors.IsAlreadyExists(err) {
				return w.client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)
			}
			again = true
			return err
		})
		if err != nil {
			w.t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
		}
	}
}

// nodeClass creates the EC2NodeClass that all tests share, if it is not there.
func (w *world) nodeClass() {
	w.t.Helper()
	if err := client.IgnoreAlreadyExists(w.client.Create(w.t.Context(), sandbox.NodeClass("default"))); err != nil {
		w.t.Fatal(err)
	}
}

// pool creates a NodePool of the test's; change adapts it.
func (w *world) pool(name string, change func(*karpv1.NodePool)) {
	w.t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template := &pool.Spec.Template
	template.Labels = map[string]string{worldKey: w.name}
	template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	template.Spec.Taints = []corev1.Taint{{Key: worldKey, Value: w.name, Effect: corev1.TaintEffectNoSchedule}}
	template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot", "on-demand"}},
		{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
	}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	// Tests release AMIs: only those that want to see nodes drift do.
	pool.Spec.Disruption.Budgets = []karpv1.Budget{
		{Nodes: "100%"}, {Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}},
	}
	if change != nil {
		change(pool)
	}
	w.create(pool)
	w.t.Cleanup(func() { w.removePool(pool) })
}

func (w *world) removePool(pool *karpv1.NodePool) {
	ctx, cancel := cleanupContext()
	defer cancel()
	w.clear(ctx)
	if err := persist(ctx, func() error { return client.IgnoreNotFound(w.client.Delete(ctx, pool)) }); err != nil {
		w.t.Errorf("deleting NodePool %s: %v", pool.Name, err)
	}
	err := w.awaitChange(ctx, "the nodes of NodePool "+pool.Name+" to be gone", func() bool { return len(w.claimsOf(pool.Name)) == 0 })
	if err != nil {
		w.t.Error(err)
	}
}

// hold keeps the machines of a NodePool from starting their kubelets until release is called, or the test has ended.
func (w *world) hold(pool string) (release func()) {
	w.t.Helper()
	release = w.HoldMachines(pool)
	w.t.Cleanup(release)
	return release
}

// awaitPromised waits until n pods of the test are promised nodes of the NodePool, or bound.
func (w *world) awaitPromised(pool string, n int) {
	w.t.Helper()
	w.await(w.t, "all pods to be promised", func() bool {
		promised := map[string]bool{}
		for _, c := range w.claimsOf(pool) {
			for _, uid := range observe.PromisedTo(c) {
				promised[uid] = true
			}
		}
		left := slices.DeleteFunc(w.pods(), func(p observe.Pod) bool { return !p.Bound.Seen() && !promised[string(p.Object.UID)] })
		return len(left) == n
	})
}

// claimsOf lists the NodeClaims of a pool that exist.
func (w *world) claimsOf(pool string) []observe.Claim {
	var out []observe.Claim
	for _, c := range w.recorder.Claims() {
		if !c.Deleted.Seen() && c.Object.Labels[karpv1.NodePoolLabelKey] == pool {
			out = append(out, c)
		}
	}
	return out
}

// everClaimed lists the NodeClaims of a pool, those that are gone included.
func (w *world) everClaimed(pool string) []observe.Claim {
	var out []observe.Claim
	for _, c := range w.recorder.Claims() {
		if c.Object.Labels[karpv1.NodePoolLabelKey] == pool {
			out = append(out, c)
		}
	}
	return out
}

// pods lists the histories of the test's pods.
func (w *world) pods() []observe.Pod {
	var out []observe.Pod
	for _, p := range w.recorder.Pods() {
		if p.Object.Namespace == w.name {
			out = append(out, p)
		}
	}
	return out
}

// running counts the test's pods that run and stay.
func (w *world) running() int {
	n := 0
	for _, p := range w.pods() {
		if !p.Deleted.Seen() && !p.Terminating.Seen() && p.Object.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

func (w *world) awaitRunning(n int) {
	w.t.Helper()
	w.await(w.t, fmt.Sprintf("%d running pods in %s", n, w.name), func() bool { return w.running() == n })
}

// node returns the history of a Node by name.
func (w *world) node(name string) observe.Node {
	for _, n := range w.recorder.Nodes() {
		if n.Object.Name == name && !n.Deleted.Seen() {
			return n
		}
	}
	return observe.Node{Object: &corev1.Node{}}
}

// podSpec is a pod that asks for cpu and memory and runs on the test's nodes only; change adapts it.
func (w *world) podSpec(cpu, memory string, change func(*corev1.PodSpec)) corev1.PodSpec {
	grace := int64(1)
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		NodeSelector:                  map[string]string{worldKey: w.name},
		Tolerations:                   []corev1.Toleration{{Key: worldKey, Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
		}}},
	}
	if change != nil {
		change(&spec)
	}
	return spec
}

// deployment creates a Deployment of n such pods.
func (w *world) deployment(name string, n int32, spec corev1.PodSpec) *appsv1.Deployment {
	w.t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	w.create(d)
	return d
}

// scale sets a Deployment's replicas.
func (w *world) scale(d *appsv1.Deployment, n int) {
	w.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
	if err := persist(w.t.Context(), func() error { return w.client.Patch(w.t.Context(), d, patch) }); err != nil {
		w.t.Fatal(err)
	}
}

// events returns the messages of the Events with this reason on objects of the test's namespace.
func (w *world) events(reason string) []corev1.Event {
	w.t.Helper()
	var list corev1.EventList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(w.name)); err != nil {
		w.t.Fatal(err)
	}
	var out []corev1.Event
	for _, e := range list.Items {
		if e.Reason == reason {
			out = append(out, e)
		}
	}
	return out
}

package terminate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

const (
	claimName = "default-1"
	nodeName  = "node-1"
	zoneID    = "use1-az1"
	// kubelet is a finalizer that lets a pod be terminating for a while.
	kubelet = "test/kubelet"
)

// world is an API server and an EC2 in memory, a Terminator, and a trace of everything it does.
type world struct {
	t       *testing.T
	api     client.WithWatch
	ec2     *memory.Cloud
	subject *terminate.Terminator
	started time.Time
	// crashAt makes the process fail, once each and in this order, when it is about to do something that begins so.
	crashAt []string

	// writes counts those of the NodeClaim's status.
	writes atomic.Int32

	mu      sync.Mutex
	trace   []string
	lists   int
	refuse  map[string]int
	exit    map[string]time.Duration
	detach  map[string]int
	claimed string
	// behind are the pods that the cache does not show as they are: nil for not at all.
	behind map[string]*corev1.Pod
	// planned is the scheduler's answer: names of claims; nil with silent set means no answer, with full set that the pods have no room.
	planned      []string
	silent, full bool
	// shift is unread while it is not known which zones a zonal shift is away from, and seen if EC2 shows the instances of such a zone.
	shift string
	// schedulers counts those that have started.
	schedulers uint64
	// karpenter means that one runs.
	karpenter bool
	// metrics are those of the Terminator.
	metrics *prometheus.Registry
	// ended are the queues of NodeClaims and of Nodes whose instance has terminated.
	ended struct{ claims, nodes chan event.GenericEvent }
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, started: time.Now(), refuse: map[string]int{}, exit: map[string]time.Duration{}, detach: map[string]int{}, behind: map[string]*corev1.Pod{},
		ec2: memory.New(memory.Config{TerminatedAfter: 30 * time.Second}),
	}
	w.ended.claims, w.ended.nodes = make(chan event.GenericEvent, 8), make(chan event.GenericEvent, 8)
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(w.interceptors()).
		WithStatusSubresource(&karpv1.NodeClaim{}, &corev1.Node{}, &corev1.Pod{}, &awsv1.EC2NodeClass{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	w.api = b.Build()
	w.restart()
	return w
}

// restart replaces the Terminator by one without state.
func (w *world) restart() {
	w.metrics = prometheus.NewRegistry()
	subject, err := terminate.New(terminate.Config{
		Client: w.cached(), Pods: index.ListPods(w.cached()), Reader: w.api, Cloud: tracedCloud{w}, Asker: w, Guard: leadershiptest.Always{}, Events: w, Registerer: w.metrics,
		Alone: func() bool { return !w.karpenter },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.subject = subject
}

func (w *world) log(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	w.trace = append(w.trace, fmt.Sprintf("%4s %s", time.Since(w.started).Round(time.Second), line))
}

// crash returns an error if the process crashes instead of doing what.
func (w *world) crash(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.crashAt) == 0 || !strings.HasPrefix(what, w.crashAt[0]) {
		return nil
	}
	w.crashAt = w.crashAt[1:]
	return errCrash
}

var errCrash = fmt.Errorf("crash")

// crashes has the process die now, or once for each line.
func (w *world) crashes(d *datadriven.TestData) {
	if d.HasArg("now") {
		w.restart()
		return
	}
	w.crashAt = strings.Split(strings.TrimSpace(d.Input), "\n")
}

func (w *world) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.trace = nil }()
	if len(w.trace) == 0 {
		return ""
	}
	return strings.Join(w.trace, "\n") + "\n"
}

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	obj := o.(client.Object)
	if _, ok := o.(*karpv1.NodeClaim); ok {
		return // The Node's Event says the same.
	}
	message := fmt.Sprintf(format, args...)
	if len(message) > 200 {
		message = message[:200] + "..."
	}
	w.log("event %s %s: %s", obj.GetName(), reason, message)
}

// MakeRoom implements terminate.Asker.
func (w *world) MakeRoom(_ context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error) {
	if w.silent {
		return nil, errors.New("no stream")
	}
	if q.GetPurpose() != api.Purpose_PURPOSE_TERMINATION || q.GetBound() != nil {
		w.log("scheduler: no termination: %v", q)
	}
	w.log("scheduler: %s goes, %s, with %s: launches %v", strings.Join(q.GetNodeNames(), " "), q.GetReason(), strings.Join(q.GetPods(), " "), w.planned)
	if w.full {
		return &api.MakeRoomAnswer{NoRoom: "no instance type has room"}, nil
	}
	return &api.MakeRoomAnswer{NodeClaims: w.planned}, nil
}

// Stream implements terminate.Asker.
func (w *world) Stream() uint64 { return w.schedulers }

func (w *world) interceptors() interceptor.Funcs {
	describe := func(verb string, o client.Object) string {
		kind := fmt.Sprintf("%T", o)
		return fmt.Sprintf("%s %s %s", verb, strings.ToLower(kind[strings.LastIndex(kind, ".")+1:]), o.GetName())
	}
	return interceptor.Funcs{
		List: w.list,
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			what := describe("patch", o)
			if err := w.crash(what); err != nil {
				return err
			}
			err := c.Patch(ctx, o, p, opts...)
			w.log("%s%s%s", what, brief(o), failed(err))
			return err
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			what := describe("delete", o)
			if err := w.crash(what); err != nil {
				return err
			}
			do := (&client.DeleteOptions{}).ApplyOptions(opts)
			if do.GracePeriodSeconds != nil {
				what += fmt.Sprintf(" grace=%d", *do.GracePeriodSeconds)
			}
			if pod, ok := o.(*corev1.Pod); ok && do.GracePeriodSeconds != nil && *do.GracePeriodSeconds == 0 {
				removeKubelet(ctx, c, pod)
			}
			if _, ok := o.GetLabels()["undeletable"]; ok {
				w.log("%s refused", what)
				return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("admission webhook denied the request"))
			}
			w.log("%s", what)
			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if pod, ok := o.(*corev1.Pod); ok {
				w.log("%s %s phase=%s conditions=%v", describe("patch", o), sub, pod.Status.Phase, conditionsOf(pod))
			}
			if claim, ok := o.(*karpv1.NodeClaim); ok {
				w.logConditions(claim)
				w.writes.Add(1)
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, _ string, o client.Object, sub client.Object, _ ...client.SubResourceCreateOption) error {
			if _, ok := sub.(*policyv1.Eviction); !ok {
				return fmt.Errorf("unexpected subresource object %T", sub)
			}
			return w.evict(ctx, c, o)
		},
	}
}

// list lists in another order each second time: the cache has none.
func (w *world) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	err := c.List(ctx, list, opts...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	if pods, ok := list.(*corev1.PodList); ok && w.lists%2 == 0 && len(opts) > 0 { // Those of a node.
		slices.Reverse(pods.Items)
	}
	if volumes, ok := list.(*storagev1.VolumeAttachmentList); ok && w.lists%2 == 0 {
		slices.Reverse(volumes.Items)
	}
	return err
}

func (w *world) evict(ctx context.Context, c client.Client, o client.Object) error {
	if err := w.crash("evict " + o.GetName()); err != nil {
		return err
	}
	w.mu.Lock()
	refuse := w.refuse[o.GetName()]
	if refuse > 0 {
		w.refuse[o.GetName()]--
	}
	w.mu.Unlock()
	if refuse > 0 {
		w.log("evict %s refused", o.GetName())
		if _, ending := o.GetLabels()["ending"]; ending {
			if refuse == 1 { // The namespace controller has reached it.
				return errors.Join(namespaceEnds(o), c.Delete(ctx, o))
			}
			return namespaceEnds(o)
		}
		if _, denied := o.GetLabels()["denied"]; denied {
			return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("admission webhook denied the request"))
		}
		if _, unanswered := o.GetLabels()["unanswered"]; unanswered {
			return apierrors.NewTimeoutError("the request timed out", 1)
		}
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget quorum needs 2 healthy pods and has 2 currently",
		})
		return err
	}
	w.log("evict %s", o.GetName())
	return c.Delete(ctx, o)
}

// namespaceEnds is the API server's answer to a create request in a namespace that is being deleted.
func namespaceEnds(o client.Object) error {
	err := apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("unable to create new content in namespace default because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	return err
}

func failed(err error) string {
	if err == nil {
		return ""
	}
	return " failed: " + err.Error()
}

func brief(o client.Object) string {
	node, ok := o.(*corev1.Node)
	if !ok {
		if len(o.GetFinalizers()) == 0 {
			return " finalizers=[]"
		}
		return ""
	}
	var taints []string
	for _, t := range node.Spec.Taints {
		taints = append(taints, t.Key)
	}
	out := fmt.Sprintf(" taints=%v finalizers=%v", taints, node.Finalizers)
	if node.Labels[corev1.LabelNodeExcludeBalancers] != "" {
		out += " out-of-load-balancers"
	}
	return out
}

func conditionsOf(pod *corev1.Pod) []string {
	var out []string
	for _, c := range pod.Status.Conditions {
		out = append(out, string(c.Type)+":"+c.Reason)
	}
	return out
}

// logConditions logs the conditions that a termination sets, when they changed.
func (w *world) logConditions(claim *karpv1.NodeClaim) {
	var out []string
	for _, c := range claim.Status.Conditions {
		switch c.Type {
		case karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating, karpv1.ConditionTypeDisruptionReason:
			text := fmt.Sprintf("%s=%s", c.Type, c.Status)
			if c.Reason != c.Type {
				text += "(" + c.Reason + ")"
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	if text := strings.Join(out, " "); text != w.claimed {
		w.claimed = text
		w.log("claim %s", text)
	}
}

// tick simulates a second of the manager and of the kubelet, and reports whether anything is left.
func (w *world) tick(ctx context.Context) bool {
	w.kubelet(ctx)
	w.collectGarbage(ctx)
	nodes := &corev1.NodeList{}
	claims := &karpv1.NodeClaimList{}
	if w.api.List(ctx, nodes) != nil || w.api.List(ctx, claims) != nil {
		return true
	}
	w.takeEnded(ctx)
	for _, n := range nodes.Items {
		w.reconcile("node", w.subject.ReconcileNode, ctx, n.Name)
	}
	for _, c := range claims.Items {
		w.reconcile("claim", w.subject.ReconcileClaim, ctx, c.Name)
	}
	time.Sleep(time.Second)
	return len(nodes.Items)+len(claims.Items) > 0
}

// takeEnded reconciles what is enqueued because its instance has terminated.
func (w *world) takeEnded(ctx context.Context) {
	for {
		select {
		case e := <-w.ended.claims:
			w.reconcile("claim", w.subject.ReconcileClaim, ctx, e.Object.GetName())
		case e := <-w.ended.nodes:
			w.reconcile("node", w.subject.ReconcileNode, ctx, e.Object.GetName())
		default:
			return
		}
	}
}

type reconciler func(context.Context, reconcile.Request) (reconcile.Result, error)

func (w *world) reconcile(what string, r reconciler, ctx context.Context, name string) {
	_, err := r(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	switch {
	case err == nil:
	case strings.Contains(err.Error(), errCrash.Error()):
		w.log("CRASH and restart")
		w.restart()
	default:
		w.log("%s reconcile error: %v", what, err)
	}
}

package reclaim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/reclaim"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flow is a Reclaimer with an in-memory API server, and a scheduler with scripted answers.
type flow struct {
	t       *testing.T
	api     client.Client
	subject *reclaim.Reclaimer
	answer  string
	during  func()
	// lost means that deletions are done, and have no answer.
	lost bool
	// looks is how often the ledger looked at the cluster.
	looks int

	mu    sync.Mutex
	trace strings.Builder
}

// TestFlow runs the files of testdata/flow, each in a bubble of its own time:
//
//	pool nodes=BUDGET after=DURATION [schedule=CRON]
//	                                     the NodePool; _ for a blank
//	node NAME...                         ready nodes of it, with their claims
//	pod NAME node=NODE                   a pod on a node
//	daemon NAME node=NODE [protected] [guarded]
//	                                     a DaemonSet's pod on a node; protected: with do-not-disrupt; guarded: a PodDisruptionBudget allows no eviction
//	release NAME                         its do-not-disrupt is removed
//	scheduler free|busy|silent|pod=NODE|daemon=NODE
//	                                     its answer; pod: a pod is bound during the question; daemon: one of a DaemonSet, with do-not-disrupt
//	crash NODE                           a launcher crashed after it had cordoned the node
//	lost                                 deletions have no answer from now on
//	pass DURATION                        advances the time
//	look                                 reconciles every claim once; prints the events and the state of the nodes
func TestFlow(t *testing.T) {
	datadriven.Walk(t, "testdata/flow", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := newFlow(t)
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return f.command(t.Context(), d) })
		})
	})
}

func newFlow(t *testing.T) *flow {
	t.Helper()
	f := &flow{t: t, answer: "free"}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodeClaim{}).WithInterceptorFuncs(interceptor.Funcs{List: f.list, Delete: f.delete})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	f.api = b.Build()
	ender, err := terminate.New(terminate.Config{
		Client: f.api, Pods: index.ListPods(f.api), Reader: f.api, Cloud: memory.New(memory.Config{}), Asker: f, Guard: leadershiptest.Always{}, Events: f, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ledger, counted := shared(t, f.api)
	f.subject, err = reclaim.New(reclaim.Config{
		Client: f.api, Pods: index.ListPods(f.api), Reader: f.api, Guard: leadershiptest.Always{}, Asker: f, Ender: ender, Events: f, Ledger: ledger, Metrics: counted,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// list counts the looks of the ledger: nothing else lists NodePools.
func (f *flow) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*karpv1.NodePoolList); ok {
		f.looks++
	}
	return c.List(ctx, list, opts...)
}

func (f *flow) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	err := c.Delete(ctx, o, opts...)
	if err == nil && f.lost {
		return apierrors.NewTimeoutError("the request timed out", 1)
	}
	return err
}

func (f *flow) log(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(&f.trace, format+"\n", args...)
}

// Eventf implements announce.EventRecorders.
func (f *flow) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	if _, ok := o.(*corev1.Node); !ok {
		f.log("event %s %s: %s", o.(client.Object).GetName(), reason, fmt.Sprintf(format, args...))
	}
}

// Stream implements terminate.Asker: no other scheduler begins.
func (f *flow) Stream() uint64 { return 0 }

// MakeRoom implements terminate.Asker: an empty node has no pods to ask for.
func (f *flow) MakeRoom(context.Context, *api.MakeRoom) (*api.MakeRoomAnswer, error) {
	return nil, errors.New("not here")
}

// Busy implements reclaim.Asker.
func (f *flow) Busy(ctx context.Context, q *api.NodeBusy) (bool, string, error) {
	node := q.GetNodeName()
	if q.GetBuffersMove() {
		return false, "", errors.New("nothing plans the rooms of buffers elsewhere")
	}
	n := &corev1.Node{}
	if err := f.api.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return false, "", err
	}
	f.log("asked about %s, cordoned %t", node, terminate.Cordoned(n))
	if f.during != nil {
		f.during()
	}
	switch f.answer {
	case "busy":
		return true, "pod default/web is promised to it", nil
	case "silent":
		return false, "", errors.New("no stream")
	}
	return false, "", nil
}

func (f *flow) command(ctx context.Context, d *datadriven.TestData) string {
	var name, value string
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
		if len(d.CmdArgs[0].Vals) > 0 {
			value = d.CmdArgs[0].Vals[0]
		}
	}
	switch d.Cmd {
	case "pool":
		f.addPool(ctx, value, d)
	case "node":
		for _, arg := range d.CmdArgs {
			f.addNode(ctx, arg.Key)
		}
	case "pod":
		f.addPod(ctx, name, d.CmdArgs[1].Vals[0])
	case "daemon":
		f.addDaemon(ctx, name, d)
	case "release":
		f.release(ctx, name)
	case "scheduler":
		f.schedule(ctx, name, value)
	case "crash":
		f.crash(ctx, name)
	case "lost":
		f.lost = true
	case "pass":
		time.Sleep(parse(f.t, name))
	case "look":
		return f.look(ctx)
	default:
		f.t.Fatalf("unknown command %s", d.Cmd)
	}
	return ""
}

// schedule sets the scheduler's answer.
func (f *flow) schedule(ctx context.Context, answer, node string) {
	f.answer, f.during = answer, nil
	switch answer {
	case "pod":
		f.during = func() { f.addPod(ctx, "late", node) }
	case "daemon":
		f.during = func() { f.addDaemonPod(ctx, "late", node, protected()) }
	}
}

func parse(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (f *flow) addPool(ctx context.Context, budget string, d *datadriven.TestData) {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: budget}}
	if d.HasArg("schedule") {
		pool.Spec.Disruption.Budgets[0].Schedule = new(strings.ReplaceAll(d.CmdArgs[2].Vals[0], "_", " "))
		pool.Spec.Disruption.Budgets[0].Duration = &metav1.Duration{Duration: time.Hour}
	}
	after := parse(f.t, d.CmdArgs[1].Vals[0])
	pool.Spec.Disruption.ConsolidateAfter.Duration = &after
	f.create(ctx, pool)
}

// crash leaves the node as a launcher does that died after it had cordoned it.
func (f *flow) crash(ctx context.Context, name string) {
	node := &corev1.Node{}
	if err := f.api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		f.t.Fatal(err)
	}
	node.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint}
	node.Annotations = map[string]string{terminate.CordonedByAnnotation: reclaim.Reason}
	if err := f.api.Update(ctx, node); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flow) create(ctx context.Context, o client.Object) {
	o.SetUID(types.UID(o.GetName()))
	o.SetCreationTimestamp(metav1.Now())
	if err := f.api.Create(ctx, o); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flow) addPod(ctx context.Context, name, node string) {
	f.create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}})
}

func protected() map[string]string {
	return map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
}

func (f *flow) addDaemon(ctx context.Context, name string, d *datadriven.TestData) {
	var annotations map[string]string
	if d.HasArg("protected") {
		annotations = protected()
	}
	f.addDaemonPod(ctx, name, d.CmdArgs[1].Vals[0], annotations)
	if d.HasArg("guarded") {
		f.create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
		})
	}
}

func (f *flow) addDaemonPod(ctx context.Context, name, node string, annotations map[string]string) {
	f.create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{"app": name}, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent"}},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	})
}

// release removes do-not-disrupt from a pod.
func (f *flow) release(ctx context.Context, name string) {
	pod := &corev1.Pod{}
	if err := f.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
		f.t.Fatal(err)
	}
	pod.Annotations = nil
	if err := f.api.Update(ctx, pod); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flow) addNode(ctx context.Context, name string) {
	labels := map[string]string{karpv1.NodePoolLabelKey: "default"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	f.create(ctx, node)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-" + name, Labels: labels, Finalizers: []string{karpv1.TerminationFinalizer}}}
	claim.Status.NodeName = name
	f.create(ctx, claim)
	for _, c := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(c)
	}
	claim.Status.NodeName = name
	if err := f.api.Status().Update(ctx, claim); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flow) look(ctx context.Context) string {
	claims := &karpv1.NodeClaimList{}
	if err := f.api.List(ctx, claims); err != nil {
		f.t.Fatal(err)
	}
	for _, c := range claims.Items {
		result, err := f.subject.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: c.Name}})
		if err != nil {
			f.log("%s: %v", c.Name, err)
		}
		if result.RequeueAfter > 0 {
			f.log("%s again in %s", c.Name, result.RequeueAfter)
		}
	}
	if err := f.api.List(ctx, claims); err != nil {
		f.t.Fatal(err)
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		node := &corev1.Node{}
		if err := f.api.Get(ctx, client.ObjectKey{Name: c.Status.NodeName}, node); err != nil {
			f.t.Fatal(err)
		}
		f.log("%s: leaving %t cordoned %t consolidatable %t", node.Name, c.DeletionTimestamp != nil, terminate.Cordoned(node),
			c.StatusConditions().IsTrue(karpv1.ConditionTypeConsolidatable))
	}
	defer f.trace.Reset()
	return f.trace.String()
}

// While a node is not initialized, another package writes its status: a second writer would only cause conflicts.
func TestStatusOfABootingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t)
		f.addNode(t.Context(), "a")
		claim := &karpv1.NodeClaim{}
		for _, initialized := range []bool{false, true} {
			if err := f.api.Get(t.Context(), client.ObjectKey{Name: "claim-a"}, claim); err != nil {
				t.Fatal(err)
			}
			claim.StatusConditions().SetUnknown(karpv1.ConditionTypeInitialized)
			if initialized {
				claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
			}
			if err := f.api.Status().Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			f.subject.PodEvent("a", time.Now())
			f.look(t.Context())
			if err := f.api.Get(t.Context(), client.ObjectKey{Name: "claim-a"}, claim); err != nil {
				t.Fatal(err)
			}
			if got := claim.Status.LastPodEventTime; got.IsZero() == initialized {
				t.Errorf("initialized %t: lastPodEventTime %s", initialized, got)
			}
		}
	})
}

package repair_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/repair"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ward is a Repairer over an API server in memory, and an Ender that writes down what it is asked.
type ward struct {
	t       *testing.T
	api     client.Client
	subject *repair.Repairer
	metrics *prometheus.Registry
	start   time.Time
	trace   strings.Builder
	due     map[string]time.Time
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	nodes POOL N [joining] [foreign]       N ready nodes POOL-0, POOL-1, ... with their claims; _ for no NodePool
//	condition NODE TYPE=STATUS             a condition of the node changes now
//	run DURATION                           prints what happened, with the time since the beginning
//	metrics                                prints what was counted
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			w := &ward{t: t, start: time.Now(), due: map[string]time.Time{}, metrics: prometheus.NewRegistry()}
			b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&corev1.Node{})
			index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
			w.api = b.Build()
			var err error
			w.subject, err = repair.New(repair.Config{
				Client: w.api, Guard: leadershiptest.Always{}, Ender: w, Events: w, Registerer: w.metrics, Enabled: true,
				Ours: func(c *karpv1.NodeClaim) bool { return c.Annotations["foreign"] == "" },
			})
			if err != nil {
				t.Fatal(err)
			}
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return w.command(d) })
		})
	})
}

// BeginNow implements repair.Ender.
func (w *ward) BeginNow(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	fmt.Fprintf(&w.trace, "%s end %s now: %s\n", time.Since(w.start).Round(time.Second), claim.Name, reason)
	return w.api.Delete(ctx, claim)
}

// Eventf implements announce.EventRecorder.
func (w *ward) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	if node, ok := o.(*corev1.Node); ok {
		fmt.Fprintf(&w.trace, "%s event %s %s: %s\n", time.Since(w.start).Round(time.Second), node.Name, reason, fmt.Sprintf(format, args...))
	}
}

func (w *ward) command(d *datadriven.TestData) string {
	defer w.trace.Reset()
	switch d.Cmd {
	case "nodes":
		w.add(d)
	case "condition":
		w.condition(d.CmdArgs[0].Key, d.CmdArgs[1].Key, corev1.ConditionStatus(d.CmdArgs[1].Vals[0]))
	case "run":
		length, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			w.t.Fatal(err)
		}
		w.run(length)
	case "metrics":
		families, err := w.metrics.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range families {
			text, err := testutil.GatherAndCount(w.metrics, f.GetName())
			if err != nil {
				w.t.Fatal(err)
			}
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
				fmt.Fprintf(&w.trace, "%s{%s} %v of %d\n", f.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue(), text)
			}
		}
	default:
		d.Fatalf(w.t, "unknown command %s", d.Cmd)
	}
	return w.trace.String()
}

func (w *ward) add(d *datadriven.TestData) {
	pool, n := d.CmdArgs[0].Key, 0
	if _, err := fmt.Sscan(d.CmdArgs[1].Key, &n); err != nil {
		w.t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprintf("%s-%d", pool, i)
		labels := map[string]string{karpv1.NodePoolLabelKey: pool, karpv1.CapacityTypeLabelKey: "spot"}
		if pool == "_" {
			delete(labels, karpv1.NodePoolLabelKey)
		}
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}}
		claim.Status.NodeName, claim.Status.ImageID = name, "ami-1"
		if !d.HasArg("joining") {
			claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
		}
		if d.HasArg("foreign") {
			claim.Annotations = map[string]string{"foreign": "yes"}
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		for _, o := range []client.Object{claim, node} {
			if err := w.api.Create(w.t.Context(), o); err != nil {
				w.t.Fatal(err)
			}
		}
		w.condition(name, string(corev1.NodeReady), corev1.ConditionTrue)
	}
}

func (w *ward) condition(node, kind string, status corev1.ConditionStatus) {
	n := &corev1.Node{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		w.t.Fatal(err)
	}
	now := corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: status, LastTransitionTime: metav1.Now(), Message: "says the test"}
	n.Status.Conditions = append(slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return string(c.Type) == kind }), now)
	if err := w.api.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
	w.due[node] = time.Now()
}

// run plays the manager's work queue.
func (w *ward) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		next := end
		for _, at := range w.due {
			if at.Before(next) {
				next = at
			}
		}
		time.Sleep(time.Until(next))
		for _, name := range slices.Sorted(maps.Keys(w.due)) {
			if time.Now().Before(w.due[name]) {
				continue
			}
			delete(w.due, name)
			result, err := w.subject.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
			if err != nil {
				w.t.Fatal(err)
			}
			if result.RequeueAfter > 0 {
				w.due[name] = time.Now().Add(result.RequeueAfter)
			}
		}
	}
}

// Without its feature gate there is no controller: a manager is not even asked for one.
func TestNothingIsRepairedWithoutTheGate(t *testing.T) {
	w := &ward{t: t}
	r, err := repair.New(repair.Config{Client: fake.NewClientBuilder().Build(), Guard: leadershiptest.Always{}, Ender: w, Events: w, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetupWithManager(nil); err != nil {
		t.Error(err)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := repair.New(repair.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

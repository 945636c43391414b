package repair_test

import (
	"context"
	"errors"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/repair"
	"github.com/slipway-k8s/slipway/launcher/scenariotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ward is a Repairer over an API server in memory, and an Ender that writes down what it is asked.
type ward struct {
	*scenariotest.Scene

	t       *testing.T
	subject *repair.Repairer
	metrics *prometheus.Registry
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	nodes POOL N [joining] [foreign]       N ready nodes POOL-0, POOL-1, ... with their claims; _ for no NodePool
//	condition NODE TYPE=STATUS             a condition of the node changes now
//	drain NODE [instance]                  it is being deleted, and its NodeClaim; instance: its drain is over, its instance terminates
//	run DURATION                           prints what happened, with the time since the beginning
//	metrics                                prints what was counted
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			w := &ward{Scene: scenariotest.New(t, &corev1.Node{}), t: t, metrics: prometheus.NewRegistry()}
			var err error
			w.subject, err = repair.New(repair.Config{
				Client: w.API, Guard: leadershiptest.Always{}, Ender: w, Events: w, Registerer: w.metrics, Enabled: true,
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
	w.LogTimed("end %s now: %s", claim.Name, reason)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpv1.NodeClaimTerminationTimestampAnnotationKey, time.Now().UTC().Format(time.RFC3339))
	return errors.Join(w.API.Update(ctx, claim), w.API.Delete(ctx, claim))
}

// drain has a termination of the node have begun.
func (w *ward) drain(name string, instance bool) {
	node, claim := &corev1.Node{}, &karpv1.NodeClaim{}
	for _, o := range []client.Object{node, claim} {
		w.Must(w.API.Get(w.t.Context(), client.ObjectKey{Name: name}, o))
	}
	if instance {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
	}
	for _, o := range []client.Object{node, claim} {
		o.SetFinalizers([]string{karpv1.TerminationFinalizer})
		w.Must(w.API.Update(w.t.Context(), o))
		w.Must(w.API.Delete(w.t.Context(), o))
	}
}

// Eventf implements announce.EventRecorder.
func (w *ward) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	if node, ok := o.(*corev1.Node); ok {
		w.LogTimed("event %s %s: %s", node.Name, reason, fmt.Sprintf(format, args...))
	}
}

func (w *ward) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "nodes":
		w.add(d)
	case "condition":
		w.condition(d.CmdArgs[0].Key, d.CmdArgs[1].Key, corev1.ConditionStatus(d.CmdArgs[1].Vals[0]))
	case "drain":
		w.drain(d.CmdArgs[0].Key, d.HasArg("instance"))
	case "run":
		w.Must(w.Run(w.subject, w.Duration(d.CmdArgs[0].Key)))
	case "metrics":
		families, err := w.metrics.Gather()
		w.Must(err)
		for _, f := range families {
			text, err := testutil.GatherAndCount(w.metrics, f.GetName())
			w.Must(err)
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
				w.Log("%s{%s} %v of %d", f.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue(), text)
			}
		}
	default:
		d.Fatalf(w.t, "unknown command %s", d.Cmd)
	}
	return w.TakeTrace()
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
			w.Must(w.API.Create(w.t.Context(), o))
		}
		w.condition(name, string(corev1.NodeReady), corev1.ConditionTrue)
	}
}

func (w *ward) condition(node, kind string, status corev1.ConditionStatus) {
	n := &corev1.Node{}
	w.Must(w.API.Get(w.t.Context(), client.ObjectKey{Name: node}, n))
	now := corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: status, LastTransitionTime: metav1.Now(), Message: "says the test"}
	n.Status.Conditions = append(slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return string(c.Type) == kind }), now)
	w.Must(w.API.Status().Update(w.t.Context(), n))
	w.Enqueue(node)
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

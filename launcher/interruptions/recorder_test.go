package interruptions

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// world is an API server, a cloud with one type, and a Recorder.
type world struct {
	t        *testing.T
	client   client.Client
	recorder *Recorder
	list     []catalog.InstanceType
	leading  bool
	changes  int
	events   []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w := &world{t: t, leading: true, client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(class).Build()}
	w.list = []catalog.InstanceType{{Name: "m5.large", Offerings: []catalog.Offering{
		{Zone: "a", CapacityType: "spot", Price: 0.03, Available: true},
		{Zone: "b", CapacityType: "spot", Price: 0.03, Available: true},
		{Zone: "a", CapacityType: "on-demand", Price: 0.1, Available: true},
	}}}
	w.restart()
	return w
}

// restart makes a new Recorder.
func (w *world) restart() {
	w.t.Helper()
	var err error
	w.recorder, err = New(Config{
		ConfigMap: types.NamespacedName{Namespace: "kube-system", Name: "slipway-interruptions"}, PerPod: 0.005, Client: w.client, Claims: index.ListClaims(w.client), Reader: w.client,
		Offers: w, Leading: func() bool { return w.leading }, Changed: func() { w.changes++ }, Events: w, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// InstanceTypes implements Offers.
func (w *world) InstanceTypes(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	return w.list, nil
}

// Changed implements Offers.
func (w *world) Changed() <-chan struct{} { return nil }

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(_ runtime.Object, _, reason, format string, args ...any) {
	w.events = append(w.events, reason+": "+fmt.Sprintf(format, args...))
}

// losses returns the expected losses by offering.
func (w *world) losses() []float64 {
	w.t.Helper()
	list, err := w.recorder.InstanceTypes(w.t.Context(), &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []float64
	for _, o := range list[0].Offerings {
		out = append(out, o.LossPerPod)
	}
	return out
}

// spot creates the NodeClaim of a spot node in zone a; interrupted sets what package interrupt leaves on it.
func (w *world) spot(name string, launched time.Time, interrupted bool) {
	w.t.Helper()
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
		corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "a", karpv1.CapacityTypeLabelKey: "spot",
	}, Finalizers: []string{"karpenter.sh/termination"}}}
	c.Status.ProviderID = "aws:///a/i-" + name
	c.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	if interrupted {
		c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, string(cloud.SpotInterrupted), string(cloud.SpotInterrupted))
	}
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(launched)
	}
	if err := w.client.Create(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
	if interrupted {
		if err := w.client.Delete(w.t.Context(), c); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) configMap() *corev1.ConfigMap {
	w.t.Helper()
	out := &corev1.ConfigMap{}
	if err := w.client.Get(w.t.Context(), w.recorder.config.ConfigMap, out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// Interruptions raise the expected loss of their offering alone, at once, and across a restart; on-demand offerings have none.
func TestLossIsLearnedAndKept(t *testing.T) {
	w, start := newWorld(t), time.Now().Add(-time.Hour)
	w.recorder.round(t.Context(), start)
	prior := w.losses()
	if want := -math.Log(0.95) / 730 * 0.005; math.Abs(prior[0]-want) > 1e-12 || prior[0] != prior[1] || prior[2] != 0 {
		t.Fatalf("losses %v at first, want %v, %v and 0", prior, want, want)
	}
	before := w.changes
	w.spot("n1", start, true)
	w.spot("n2", start, true)
	w.recorder.round(t.Context(), start.Add(10*time.Second))
	learned := w.losses()
	if learned[0] < 0.00009 || learned[1] != prior[1] || w.changes != before+1 {
		t.Errorf("losses %v with %d changes after two interruptions, want 2/100 x 0.005 in the first zone", learned, w.changes-before)
	}
	first, _ := w.recorder.InstanceTypes(t.Context(), &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	second, _ := w.recorder.InstanceTypes(t.Context(), &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	if &first[0] != &second[0] {
		t.Error("the list is another one though nothing has changed")
	}
	w.restart()
	if again := w.losses(); math.Abs(again[0]-learned[0]) > 1e-9 {
		t.Errorf("loss %v after a restart and before the first round, want %v", again[0], learned[0])
	}
	w.recorder.round(t.Context(), start.Add(20*time.Second))
	if again := w.losses(); math.Abs(again[0]-learned[0]) > 1e-9 {
		t.Errorf("loss %v after a restart, want %v", again[0], learned[0])
	}
	w.leading = false
	w.spot("n3", start, true)
	w.recorder.round(t.Context(), start.Add(30*time.Second))
	if again := w.losses(); math.Abs(again[0]-learned[0]) > 1e-9 {
		t.Errorf("loss %v: a replica that does not lead learns", again[0])
	}
}

// The lists of EC2NodeClasses that come and go do not pile up.
func TestListsOfDeletedClassesAreForgotten(t *testing.T) {
	w, now := newWorld(t), time.Now()
	w.losses()
	for i := range 5 {
		class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("run-", i)}}
		if err := w.client.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if _, err := w.recorder.InstanceTypes(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		w.recorder.round(t.Context(), now)
		if n := len(w.recorder.priced); n != 2 {
			t.Errorf("%d lists of two classes", n)
		}
		if err := w.client.Delete(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	w.recorder.round(t.Context(), now)
	if _, ok := w.recorder.priced["default"]; !ok || len(w.recorder.priced) != 1 {
		t.Errorf("%d lists, that of the class which is there: %t", len(w.recorder.priced), ok)
	}
}

// How long nodes last is in use at once, across a restart, and again once it has faded, without another interruption.
func TestLastsIsLearnedAndFades(t *testing.T) {
	w, start := newWorld(t), time.Now().Add(-time.Hour)
	lasts := func() time.Duration {
		list, err := w.recorder.InstanceTypes(t.Context(), &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		if err != nil {
			t.Fatal(err)
		}
		if o := list[0].Offerings; o[1].Lasts != 0 || o[2].Lasts != 0 {
			t.Errorf("%+v, want no time for another zone and on demand", o)
		}
		return list[0].Offerings[0].Lasts
	}
	w.recorder.round(t.Context(), start)
	if got := lasts(); got != 0 {
		t.Errorf("a node is expected to last %v at first", got)
	}
	for i := range 3 {
		launched := start.Add(time.Duration(i) * 20 * time.Minute)
		w.spot(fmt.Sprint("n", i), launched, true)
		w.recorder.round(t.Context(), launched.Add(10*time.Minute))
	}
	learned := lasts()
	if learned < time.Hour || learned > 80*time.Minute {
		t.Errorf("a node is expected to last %v after three of 10 minutes, want about 70 minutes", learned)
	}
	w.restart()
	w.recorder.round(t.Context(), start.Add(time.Hour))
	if got := lasts(); (got - learned).Abs() > time.Minute {
		t.Errorf("a node is expected to last %v after a restart, want %v", got, learned)
	}
	before := w.changes
	w.recorder.round(t.Context(), start.Add(5*24*time.Hour))
	if got := lasts(); got < 100*time.Minute || w.changes != before+1 {
		t.Errorf("a node is expected to last %v after five days, with %d changes, want more than 100 minutes", got, w.changes-before)
	}
}

// The user's priors count, are read again, survive a write, and are reported where they cannot be read.
func TestPriors(t *testing.T) {
	w := newWorld(t)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "slipway-interruptions"},
		Data:       map[string]string{interruption.PriorsKey: "m5.large: \">20%\"\nbad: .nan\n", interruption.LearnedKey: "{"},
	}
	if err := w.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	w.recorder.round(t.Context(), start)
	if got, want := w.losses()[0], -math.Log(0.75)/730*0.005; math.Abs(got-want) > 1e-12 {
		t.Errorf("loss %v, want %v", got, want)
	}
	if len(w.events) != 1 || !strings.Contains(w.events[0], "InterruptionPriorLeftOut: data[priors.yaml]: reading priors: line 2: bad: \".nan\"") {
		t.Errorf("events %q", w.events)
	}
	w.recorder.round(t.Context(), start.Add(writePeriod+time.Second))
	stored := w.configMap()
	if stored.Data[interruption.PriorsKey] != object.Data[interruption.PriorsKey] || !strings.Contains(stored.Data[interruption.LearnedKey], "through") {
		t.Errorf("stored %v", stored.Data)
	}
	stored.Data[interruption.PriorsKey] = "default: 10%"
	if err := w.client.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	w.recorder.round(t.Context(), start.Add(2*writePeriod+2*time.Second))
	if got, want := w.losses()[0], -math.Log(0.9)/730*0.005; math.Abs(got-want) > 1e-12 {
		t.Errorf("loss %v after the priors changed, want %v", got, want)
	}
}

// NodeClaims are the cache's: one that has no conditions yet gets none.
func TestSpotNodesAreOnlyRead(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	if nodes := spotNodes([]*karpv1.NodeClaim{claim}); len(nodes) != 0 || claim.Status.Conditions != nil {
		t.Errorf("nodes %v, conditions %v", nodes, claim.Status.Conditions)
	}
}

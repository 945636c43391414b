package decisions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// launched returns a NodeClaim for two pods that EC2 launched at a time.
func launched(name string, at time.Time) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}, Annotations: map[string]string{
		catalog.ExpectedAnnotation: "m7g.large/us-east-1a/spot/0.0300", catalog.PodsAnnotation: `[{"uids":["a","b"]}]`,
	}}}
	c.Status.ProviderID = "aws:///us-east-1a/i-1"
	c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeLaunched, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	return c
}

// ended returns the NodeClaim as it is while it terminates.
func ended(c *karpv1.NodeClaim, at time.Time, reason string) *karpv1.NodeClaim {
	out := c.DeepCopy()
	out.DeletionTimestamp = &metav1.Time{Time: at}
	out.Status.Conditions = append(out.Status.Conditions, status.Condition{Type: karpv1.ConditionTypeDisruptionReason, Status: metav1.ConditionTrue, Reason: reason})
	return out
}

// The ring has each decision once, of the last day.
func TestRing(t *testing.T) {
	now, r := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Ring{}
	one := launched("one", now.Add(-time.Hour))
	for _, want := range []bool{true, false} {
		if got := r.Add(view.DecisionsOf(one)[0], now); got != want {
			t.Errorf("added: %t, want %t", got, want)
		}
	}
	if r.Add(view.DecisionsOf(launched("old", now.Add(-KeptFor-time.Second)))[0], now) {
		t.Error("a decision of the day before yesterday was added")
	}
	list := r.List(now)
	want := view.Decision{
		At: now.Add(-time.Hour), What: view.Launched, NodeClaims: []string{"one"}, NodePool: "default", Why: "for 2 pods", InstanceType: "m7g.large", Zone: "us-east-1a",
		CapacityType: "spot", Price: 0.03, Pods: 2,
	}
	if len(list) != 1 || fmt.Sprint(list[0]) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", list, want)
	}
	if len(r.List(now.Add(24*time.Hour))) != 0 || len(r.by) != 0 {
		t.Error("a decision is kept for more than a day")
	}
}

// A node that consolidation removes is listed once: its termination is a part of the consolidation. Other terminations are listed.
func TestConsolidatedNodeIsListedOnce(t *testing.T) {
	now, r := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Ring{}
	one, two := launched("one", now.Add(-time.Hour)), launched("two", now.Add(-time.Hour))
	r.Add(view.NewDecision(view.Consolidated, now.Add(-time.Minute), "pods fit elsewhere", one), now)
	for _, d := range []view.Decision{view.DecisionsOf(ended(one, now, "underutilized"))[1], view.DecisionsOf(ended(two, now, "Underutilized"))[1]} {
		r.Add(d, now)
	}
	var got []string
	for _, d := range r.List(now) {
		got = append(got, fmt.Sprint(d.What, d.NodeClaims))
	}
	if fmt.Sprint(got) != "[termination[two] consolidation[one]]" {
		t.Errorf("got %v", got)
	}
	r = Ring{}
	r.Add(view.NewDecision(view.Consolidated, now.Add(-time.Minute), "called off", one), now)
	r.Add(view.DecisionsOf(ended(one, now, "Expired"))[1], now)
	if got := r.List(now); len(got) != 2 {
		t.Errorf("another termination is not listed: %v", got)
	}
}

// The ring has a bounded number of decisions, the latest first, and comes back as it was written.
func TestRingIsBounded(t *testing.T) {
	now, r := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Ring{}
	for i := range MostKept + 200 {
		r.Add(view.NewDecision(view.Refused, now.Add(time.Duration(i-MostKept-200)*time.Second), strings.Repeat("é", 500), launched(fmt.Sprintf("%0200d", i), now)), now)
	}
	list := r.List(now)
	data, err := encode(list)
	if err != nil || len(list) != MostKept || len(data) > 500<<10 || list[0].At != now.Add(-time.Second) || list[MostKept-1].At != now.Add(-MostKept*time.Second) {
		t.Errorf("%d decisions in %d bytes from %s to %s (%v)", len(list), len(data), list[MostKept-1].At, list[0].At, err)
	}
	if back, err := decode(data); err != nil || fmt.Sprint(back) != fmt.Sprint(list) {
		t.Errorf("%d decisions came back of %d: %v", len(back), len(list), err)
	}
	if _, err := decode([]byte("no list")); err == nil {
		t.Error("what is no list was read")
	}
}

// process is a launcher's Recorder over the cluster's ConfigMaps.
type process struct {
	*Recorder

	leads bool
}

func start(t *testing.T, c client.Client) *process {
	t.Helper()
	p := &process{}
	var err error
	p.Recorder, err = New(Config{Namespace: "kube-system", Client: c, Reader: c, Informers: &informertest.FakeInformers{Scheme: scheme.Scheme}, Leading: func() bool { return p.leads }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// texts returns the decisions as short texts.
func (p *process) texts() string {
	var out []string
	for _, d := range p.List() {
		out = append(out, fmt.Sprintf("%s %s %.2f: %s", d.What, strings.Join(d.NodeClaims, ","), d.Saving, d.Why))
	}
	return strings.Join(out, "\n")
}

// What was decided is there after a restart and in the replicas that do not lead; what cannot be written is written later.
func TestDecisionsSurviveARestart(t *testing.T) {
	now := time.Now()
	var denied error
	cluster := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return errors.Join(denied, c.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return errors.Join(denied, c.Update(ctx, o, opts...))
		},
	}).Build()
	first, standby := start(t, cluster), start(t, cluster)
	first.leads = true
	a, b := launched("a", now.Add(-4*time.Minute)), launched("b", now.Add(-3*time.Minute))
	for _, o := range []any{a, b, a, ended(a, now.Add(-2*time.Minute), "Expired"), toolscache.DeletedFinalStateUnknown{}} {
		first.observe(o)
	}
	first.round(t.Context(), now)
	first.Consolidated([]*karpv1.NodeClaim{b, a}, 0.25, 7, "pods fit elsewhere")
	first.Refused(launched("c", now), "InsufficientCapacity", "EC2 has no capacity")
	denied = errors.New("denied")
	first.round(t.Context(), now)
	if first.problem == "" {
		t.Error("no problem is noted")
	}
	denied = nil
	first.round(t.Context(), now)
	const want = "consolidation b,a 0.25: pods fit elsewhere\nrefusal c 0.00: InsufficientCapacity: EC2 has no capacity\ntermination a 0.00: Expired\n" +
		"launch b 0.00: for 2 pods\nlaunch a 0.00: for 2 pods"
	second := start(t, cluster)
	second.leads = true
	for name, p := range map[string]*process{"the first": first, "a standby": standby, "after a restart": second} {
		p.round(t.Context(), now)
		if got := p.texts(); got != want {
			t.Errorf("%s has\n%s\nwant\n%s", name, got, want)
		}
	}
	if list, err := second.Recorded(t.Context()); err != nil || len(list) != 5 || list[0].Evictions != 7 {
		t.Errorf("recorded are %+v (%v), want seven evictions first", list, err)
	}
	standby.Refused(launched("d", now), "NodeDidNotJoin", "its kubelet")
	standby.round(t.Context(), now)
	if again := start(t, cluster); again.leads {
		t.Error("leads")
	} else if again.round(t.Context(), now); again.texts() != want {
		t.Errorf("a replica that does not lead has written\n%s", again.texts())
	}
	if err := cluster.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: Name}}); err != nil {
		t.Fatal(err)
	}
	second.Refused(launched("e", now), "NodeDidNotJoin", "its kubelet")
	second.round(t.Context(), now)
	third := start(t, cluster)
	if third.round(t.Context(), now); !strings.Contains(third.texts(), "refusal e") || !strings.Contains(third.texts(), "launch a") {
		t.Errorf("after what could not be read:\n%s", third.texts())
	}
}

// The command line reads what the launcher has written: launches have their number of pods.
func TestRead(t *testing.T) {
	now, cluster := time.Now(), fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	if list, err := Read(t.Context(), cluster, "kube-system", now); err != nil || list != nil {
		t.Errorf("without the ConfigMap: %v, %v", list, err)
	}
	writer := start(t, cluster)
	writer.leads = true
	writer.observe(launched("a", now.Add(-time.Minute)))
	writer.observe(launched("b", now.Add(-25*time.Hour)))
	writer.round(t.Context(), now)
	writer.round(t.Context(), now)
	list, err := Read(t.Context(), cluster, "kube-system", now)
	if err != nil || len(list) != 1 || list[0].Pods != 2 || list[0].What != view.Launched {
		t.Errorf("%+v, %v", list, err)
	}
}

// NodeClaims are read as they change, and Run returns when its context ends.
func TestRun(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: scheme.Scheme}
	r, err := New(Config{Client: fake.NewClientBuilder().Build(), Reader: fake.NewClientBuilder().Build(), Informers: informers, Leading: func() bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	informer, err := informers.FakeInformerFor(t.Context(), &karpv1.NodeClaim{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.follow(informer); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	one, two := launched("a", now), launched("b", now)
	informer.Add(one)
	informer.Update(launched("c", now), two)
	informer.Delete(ended(one, now, "Drifted"))
	if got := len(r.List()); got != 3 {
		t.Errorf("%d decisions, want both launches and the termination", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
}

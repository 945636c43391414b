package billing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server with a node, and a Recorder. The m6i.large costs 0.096 USD per hour on demand, 0.03 as spot, and its volume 0.002.
type world struct {
	t        *testing.T
	client   client.Client
	leading  bool
	denied   error
	recorder *Recorder
	list     []commitment.Commitment
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, leading: true}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return errors.Join(w.denied, c.Update(ctx, obj, opts...))
		},
	})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	w.client = b.Build()
	w.restart()
	return w
}

// restart makes a new Recorder.
func (w *world) restart() {
	w.t.Helper()
	var err error
	w.recorder, err = New(Config{
		Namespace: "kube-system", Cluster: "prod", Client: w.client, Cache: index.List(w.client), Reader: w.client, Informers: &informertest.FakeInformers{Scheme: scheme.Scheme}, Leading: func() bool { return w.leading },
		Types: instanceTypes, Commitments: func() []commitment.Commitment { return w.list }, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// volumes is what a node's volumes cost per hour of AWS's month of 730 hours: 0.002 USD in November, which has 720.
const volumes = 0.002 * 720 / 730

func instanceTypes(context.Context) map[string][]catalog.InstanceType {
	return map[string][]catalog.InstanceType{"default": {{
		Name: "m6i.large", Charges: catalog.Charges{Volumes: volumes}, Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "on-demand", Price: 0.096 + volumes}, {Zone: "a", CapacityType: "spot", Price: 0.03 + volumes},
		},
	}}}
}

// node returns a NodeClaim that was launched, and its Node.
func node(name, capacityType string, launched time.Time) (*karpv1.NodeClaim, *corev1.Node) {
	labels := map[string]string{
		karpv1.NodePoolLabelKey: "default", corev1.LabelInstanceTypeStable: "m6i.large", corev1.LabelTopologyZone: "a", karpv1.CapacityTypeLabelKey: capacityType,
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels, CreationTimestamp: metav1.NewTime(launched)}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	claim.Status.ProviderID, claim.Status.NodeName = "aws:///a/i-"+name, name
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	return claim, n
}

// pod returns a pod on node n that requests one CPU.
func pod(namespace, name, memory string, since time.Time) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), CreationTimestamp: metav1.NewTime(since)}}
	p.Spec.NodeName = "n"
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse(memory),
	}}}}
	return p
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.client.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// recorded returns the bill of the ConfigMaps.
func (w *world) recorded() bill.Bill {
	w.t.Helper()
	records, faults, err := Read(w.t.Context(), w.client, "kube-system", time.Now(), bill.MostDays)
	if err != nil || len(faults) > 0 || len(records) == 0 {
		w.t.Fatalf("records %v, faults %v, error %v", records, faults, err)
	}
	return bill.New(records, bill.ByNamespace)
}

// The record goes on over a restart, over midnight and over a change of the leader; writing is tried again.
func TestTheRecordSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		time.Sleep(time.Until(time.Date(2026, 11, 23, 23, 30, 0, 0, time.UTC)))
		start := time.Now()
		claim, n := node("n", "on-demand", start)
		w.create(claim, n, pod("shop", "web", "4Gi", start))
		run := func(d time.Duration) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- w.recorder.Run(ctx) }()
			time.Sleep(d)
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		is := func(hours, unobserved float64) {
			t.Helper()
			b := w.recorded()
			if math.Abs(b.Total-0.098*hours) > 1e-6 || math.Abs(b.Lines[0].Total-0.049*hours) > 1e-6 || b.Lines[0].Name != "shop" || math.Abs(b.UnobservedHours-unobserved) > 1e-6 {
				t.Errorf("bill %+v, want that of %v hours, %v of them not observed", b, hours, unobserved)
			}
			if !b.Start.Equal(start) || b.Cluster != "prod" {
				t.Errorf("the record of %s starts at %s, want %s", b.Cluster, b.Start, start)
			}
		}
		run(20*time.Minute + 5*time.Second)
		is(1./3, 0)
		w.restart()
		run(time.Hour + 5*time.Second) // Over midnight.
		is(80./60+5./3600, 0)
		time.Sleep(30 * time.Minute) // Nothing runs.
		w.restart()
		run(time.Minute + 5*time.Second)
		is(111./60+10./3600, 30./60+5./3600)
		w.leading = false
		run(10 * time.Minute)
		w.leading, w.denied = true, errors.New("denied")
		run(2 * time.Minute)
		if w.recorder.problem == "" {
			t.Error("no problem is noted")
		}
		w.denied = nil
		run(time.Minute + 5*time.Second)
		if w.recorder.problem != "" {
			t.Error(w.recorder.problem)
		}
		b := w.recorded()
		if minutes := time.Since(start).Minutes(); math.Abs(b.Total-0.098*minutes/60) > 0.098/60 {
			t.Errorf("%v USD are recorded after %v minutes", b.Total, minutes)
		}
	})
}

// Reserved Instances and Savings Plans pay for nodes in AWS's order; the sum is what is paid, with what nothing uses.
func TestCommitmentsOfTheBill(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	in := Objects{Now: now, Types: instanceTypes(t.Context()), Commitments: []commitment.Commitment{
		{ID: "ri", Kind: commitment.ReservedInstances, InstanceType: "m6i.large", Count: 1, Share: 1},
		{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 0.1, Discount: 0.25, Share: 1},
		{ID: "rest", Kind: commitment.EC2InstanceSavingsPlan, Family: "c7g", USDPerHour: 0.5, Discount: 0.25, Share: 1},
	}}
	for i := range 4 {
		claim, n := node(fmt.Sprint("n", i), []string{"on-demand", "on-demand", "on-demand", "spot"}[i], now)
		in.Claims, in.Nodes = append(in.Claims, claim), append(in.Nodes, n)
	}
	o, sum := Look(in), bill.Parts{}
	for _, n := range o.Nodes {
		sum = sum.Plus(n.PerHour)
	}
	// Of three nodes on demand one is reserved, the plan pays for 1.389 at 0.072, and 0.611 are paid for at 0.096.
	want := bill.Parts{Instance: (2-0.1/0.072)*0.096 + 0.03, Volumes: 0.008, Commitments: 0.1}
	if d := sum.Plus(want.Times(-1)); math.Abs(d.Instance)+math.Abs(d.Volumes)+math.Abs(d.Commitments)+math.Abs(d.Declared) > 1e-9 {
		t.Errorf("%+v per hour, want %+v", sum, want)
	}
	// One shuts down: EC2 bills its instance no longer, and what paid for it pays for another one.
	in.Claims[1].StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
	in.Claims[1].Status.NodeName = in.Nodes[1].Name
	less := Look(in)
	if less.Nodes[1].Ended.IsZero() || !less.Nodes[0].Ended.IsZero() || math.Abs(less.Unused["sp"]-(0.1-0.072)) > 1e-9 {
		t.Errorf("nodes %+v, unused %v", less.Nodes, less.Unused)
	}
	if o.Unused["rest"] != 0.5 || math.Abs(o.Unused["sp"]) > 1e-9 || len(o.Unused) != 2 || len(o.Commitments) != 3 {
		t.Errorf("unused %v of %+v", o.Unused, o.Commitments)
	}
}

// What Reserved Instances cost is charged to the nodes that use them; what nothing uses of them is paid as well. One without a price costs nothing.
func TestReservedInstancesOfTheBill(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	in := Objects{Now: now, Types: instanceTypes(t.Context()), Commitments: []commitment.Commitment{
		{ID: "zonal", Kind: commitment.ReservedInstances, InstanceType: "m6i.large", Zone: "a", Count: 4, USDPerHour: 0.06, Share: 0.5},
		{ID: "none", Kind: commitment.ReservedInstances, InstanceType: "c7g.large", Count: 3, USDPerHour: 0.05, Share: 1},
		{ID: "unknown", Kind: commitment.ReservedInstances, InstanceType: "r5.large", Count: 3, Share: 1},
	}}
	claim, n := node("n", "on-demand", now)
	in.Claims, in.Nodes = []*karpv1.NodeClaim{claim}, []*corev1.Node{n}
	o := Look(in)
	if got, want := o.Nodes[0].PerHour, (bill.Parts{Volumes: 0.002, Commitments: 0.06}); math.Abs(got.Plus(want.Times(-1)).Total()) > 1e-9 || math.Abs(got.Commitments-0.06) > 1e-9 {
		t.Errorf("%+v per hour, want %+v", got, want)
	}
	if math.Abs(o.Unused["zonal"]-0.06) > 1e-9 || math.Abs(o.Unused["none"]-0.15) > 1e-9 || len(o.Unused) != 2 {
		t.Errorf("unused %v", o.Unused)
	}
}

// What a NodeOverlay says that a node costs is what it costs, also where commitments pay for it.
func TestOverlaidPriceOfTheBill(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	in := Objects{Now: now, Types: instanceTypes(t.Context()), Overlaid: map[string]string{"default": "default/own"}, Commitments: []commitment.Commitment{
		{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 1, Discount: 0.25, Share: 1},
	}}
	own := slices.Clone(in.Types["default"])
	for i := range own {
		own[i].Offerings = slices.Clone(own[i].Offerings)
		for k := range own[i].Offerings {
			own[i].Offerings[k].Price, own[i].Offerings[k].Overlaid = 0.052, true
		}
	}
	in.Types["default/own"] = own
	claim, n := node("n", "on-demand", now)
	in.Claims, in.Nodes = []*karpv1.NodeClaim{claim}, []*corev1.Node{n}
	if got := Look(in).Nodes[0].PerHour; math.Abs(got.Instance-(0.052-volumes)) > 1e-9 || got.Commitments != 0 {
		t.Errorf("%+v per hour, want the NodeOverlay's price", got)
	}
}

// Pods are charged to what a user wrote: a Deployment, a CronJob, a static pod's manifest.
// Of an instance that is stopped for a standby buffer, the volumes alone are billed.
func TestStoppedInstanceOfTheBill(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	claim, _ := node("n", "on-demand", now.Add(-time.Hour))
	in := Objects{Now: now, Claims: []*karpv1.NodeClaim{claim}, Types: instanceTypes(t.Context())}
	if got := Look(in).Nodes[0].PerHour; math.Abs(got.Total()-0.098) > 1e-9 || got.Volumes == 0 {
		t.Errorf("while it runs it costs %+v", got)
	}
	claim.Annotations = map[string]string{catalog.StandbyAnnotation: "buffer", catalog.StandbyStateAnnotation: "asleep/2026-11-23T11:30:00Z"}
	in.Claims = []*karpv1.NodeClaim{claim}
	if got := Look(in).Nodes[0].PerHour; got.Total() != got.Volumes || math.Abs(got.Volumes-0.002) > 1e-9 {
		t.Errorf("while it is stopped it costs %+v", got)
	}
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct{ kind, owner, pod, hash, want string }{
		{"", "", "bare", "", "Pod/bare"},
		{"ReplicaSet", "web-abc", "web-abc-x", "abc", "Deployment/web"},
		{"ReplicaSet", "own", "own-x", "", "ReplicaSet/own"},
		{"ReplicaSet", "own", "own-x", "forged", "ReplicaSet/own"},
		{"Job", "backup-29384756", "backup-29384756-x", "", "CronJob/backup"},
		{"Job", "once-1", "once-1-x", "", "Job/once-1"},
		{"Node", "ip-10-0-0-1", "kube-proxy-ip-10-0-0-1", "", "Node/kube-proxy"},
		{"StatefulSet", "db", "db-0", "", "StatefulSet/db"},
	} {
		p := pod("ns", tc.pod, "1Gi", time.Now())
		p.Labels = map[string]string{"pod-template-hash": tc.hash, "app": "x", bill.LabelPrefix + "part-of": "shop", bill.LabelPrefix + "name": "web"}
		if tc.kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: tc.kind, Name: tc.owner, Controller: new(true)}}
		}
		got := keyOf(p)
		if got.Kind+"/"+got.Name != tc.want || got.Namespace != "ns" || got.Labels != "app.kubernetes.io/name=web,app.kubernetes.io/part-of=shop" {
			t.Errorf("%+v is charged to %+v, want %s", tc, got, tc.want)
		}
	}
	long := map[string]string{}
	for i := range 100 {
		long[fmt.Sprintf("%sx%02d", bill.LabelPrefix, i)] = strings.Repeat("y", 63)
	}
	if got := labelsOf(long); len(got) > bill.MostLabels || !strings.HasPrefix(got, bill.LabelPrefix+"x00=") {
		t.Errorf("%d bytes of labels: %s", len(got), got)
	}
}

// Another provider's nodes are not on the bill, whatever an EC2NodeClass of the same name has; commitments pay for them all the same.
func TestLookLeavesOutOtherProviders(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	claim, n := node("n", "on-demand", now.Add(-time.Hour))
	claim.Spec.NodeClassRef.Group, claim.Spec.NodeClassRef.Kind = "eks.amazonaws.com", "NodeClass"
	got := Look(Objects{
		Now: now, Claims: []*karpv1.NodeClaim{claim}, Nodes: []*corev1.Node{n}, Types: instanceTypes(t.Context()),
		Commitments: []commitment.Commitment{{ID: "r", Kind: commitment.ReservedInstances, InstanceType: "m6i.large", Zone: "a", Count: 1, Share: 1}},
	})
	if len(got.Nodes) != 0 || len(got.Commitments) != 1 || got.Commitments[0].Left != 0 {
		t.Errorf("%+v", got)
	}
}

// Pods that ended are not charged, an interrupted node is known by its reason, and a node without a price in the catalog costs what was recorded.
func TestLook(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	claim, n := node("n", "spot", now.Add(-time.Hour))
	launched, struck := metav1.NewTime(now.Add(-50*time.Minute)), metav1.NewTime(now.Add(-time.Minute))
	claim.Annotations = map[string]string{catalog.CostAnnotation: `{"instance":0.5,"volumes":0.1}`}
	conditions := claim.StatusConditions()
	conditions.SetTrue(karpv1.ConditionTypeLaunched)
	conditions.SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, "spot_interrupted", "x")
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = launched
		if claim.Status.Conditions[i].Type == karpv1.ConditionTypeDisruptionReason {
			claim.Status.Conditions[i].LastTransitionTime = struck
		}
	}
	ended := pod("a", "ended", "1Gi", now)
	ended.Status.Phase = corev1.PodSucceeded
	runs := pod("a", "runs", "1Gi", now.Add(-time.Hour))
	runs.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: struck}}
	recorded := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "recorded"}}
	pool := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{catalog.NodeCostAnnotation: "0.25"}}}
	in := Objects{
		Now: now, Claims: []*karpv1.NodeClaim{claim, recorded}, Nodes: []*corev1.Node{n}, Pods: map[string][]bill.Pod{"n": PodsOf([]*corev1.Pod{ended, runs})}, Pools: []karpv1.NodePool{pool},
		Types: instanceTypes(t.Context()),
	}
	got := Look(in).Nodes
	if len(got) != 1 || len(got[0].Pods) != 1 || !got[0].Pods[0].Since.Equal(struck.Time) || !got[0].Since.Equal(launched.Time) || !got[0].Interrupted.IsZero() {
		t.Fatalf("nodes %+v", got)
	}
	if want := (bill.Parts{Instance: 0.03, Volumes: 0.002, Declared: 0.25}); math.Abs(got[0].PerHour.Plus(want.Times(-1)).Total()) > 1e-9 {
		t.Errorf("costs %+v, want %+v", got[0].PerHour, want)
	}
	claim.DeletionTimestamp = &struck
	in.Claims, in.Types = []*karpv1.NodeClaim{claim}, nil
	got = Look(in).Nodes
	if want := (bill.Parts{Instance: 0.5, Volumes: 0.1 * (730.0 / 720), Declared: 0.25}); !got[0].Interrupted.Equal(struck.Time) || got[0].PerHour != want {
		t.Errorf("node %+v", got[0])
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	if _, err := New(Config{}); err == nil || !strings.HasPrefix(err.Error(), "billing: ") {
		t.Errorf("error %v", err)
	}
}

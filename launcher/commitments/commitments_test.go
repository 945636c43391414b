package commitments

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// world is an API server with a ConfigMap, and what the reader of it did.
type world struct {
	t        *testing.T
	client   client.Client
	read     *Commitments
	registry *prometheus.Registry
	// mu guards events: the reader's goroutine adds to them.
	mu      sync.Mutex
	events  []string
	changes int
	leading bool
	denied  error
}

func (w *world) Eventf(_ runtime.Object, kind, reason, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, kind+" "+reason+": "+fmt.Sprintf(format, args...))
}

// taken returns the Events so far, and forgets them.
func (w *world) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.events
	w.events = nil
	return out
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, registry: prometheus.NewRegistry(), leading: true}
	w.client = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return errors.Join(w.denied, c.Get(ctx, key, obj, opts...))
		},
	}).Build()
	var err error
	w.read, err = New(Config{
		ConfigMap: types.NamespacedName{Namespace: "kube-system", Name: "slipway-commitments"}, Records: "kube-system", Share: 1, Reader: w.client, Client: w.client, Events: w,
		Leading: func() bool { return w.leading }, Changed: func() { w.changes++ }, Registerer: w.registry,
		Types: func(context.Context) map[string][]catalog.InstanceType {
			return map[string][]catalog.InstanceType{"class": {{
				Name: "m5.large", Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: 0.1}},
			}}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// write creates or replaces the ConfigMap.
func (w *world) write(text string) {
	w.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "slipway-commitments"}, Data: map[string]string{Key: text}}
	err := w.client.Create(w.t.Context(), object)
	if err != nil {
		err = w.client.Update(w.t.Context(), object)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// has checks the IDs of the list, and the Events and changes since the last check.
func (w *world) has(now time.Time, ids, event string, changes int) {
	w.t.Helper()
	w.changes, w.events = 0, nil
	w.read.refresh(w.t.Context(), now)
	var got []string
	for _, c := range w.read.List() {
		got = append(got, c.ID)
	}
	if strings.Join(got, " ") != ids || w.changes != changes {
		w.t.Errorf("%q after %d changes, want %q after %d", got, w.changes, ids, changes)
	}
	if event == "" && len(w.events) > 0 || event != "" && (len(w.events) != 1 || !strings.Contains(w.events[0], event)) {
		w.t.Errorf("Events %q, want one with %q", w.events, event)
	}
}

const good = "- {id: sp, kind: ComputeSavingsPlan, usdPerHour: 0.2, discountPercent: 20, end: 2027-01-01T00:00:00Z}\n"

// A ConfigMap that cannot be read leaves the last commitments in use, and says so once.
func TestTheLastGoodListStays(t *testing.T) {
	w, now := newWorld(t), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	w.has(now, "", "", 0)
	w.write(good)
	w.has(now, "sp", "", 1)
	w.has(now, "sp", "", 0)
	w.write("sp: 10")
	w.has(now, "sp", "CommitmentsUnreadable: data[commitments.yaml]: reading commitments: ", 0)
	w.has(now, "sp", "", 0)
	if got := w.unreadable(); got != 1 {
		t.Errorf("slipway_commitments_unreadable is %v", got)
	}
	w.write(good + "- {id: bad, kind: ComputeSavingsPlan}\n")
	w.has(now, "sp", "CommitmentLeftOut: bad: usdPerHour: ", 0)
	w.denied = errors.New("forbidden")
	w.has(now, "sp", "", 0)
	if got := w.unreadable(); got != 1 {
		t.Errorf("slipway_commitments_unreadable is %v", got)
	}
	w.denied = nil
	w.write(good)
	w.has(now, "sp", "", 0)
	if got := w.unreadable(); got != 0 {
		t.Errorf("slipway_commitments_unreadable is %v", got)
	}
	w.has(now.AddDate(1, 0, 0), "", "CommitmentLeftOut: sp: end: it ended at 2027-01-01T00:00:00Z", 1)
	w.has(now.AddDate(1, 0, 0), "", "", 0)
	if err := w.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "slipway-commitments"}}); err != nil {
		t.Fatal(err)
	}
	w.has(now, "", "", 0)
}

// A launcher that does not lead reads the list, and records no Event; it does when it leads.
func TestEventsOfTheLeader(t *testing.T) {
	w, now := newWorld(t), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	w.leading = false
	w.write(good + "- {id: bad}\n")
	w.has(now, "sp", "", 1)
	w.leading = true
	w.has(now, "sp", "CommitmentLeftOut: bad: ", 0)
	w.has(now, "sp", "", 0)
}

// A commitment that ends while it is used is told once, by the launcher that leads then or later.
func TestTheEndIsTold(t *testing.T) {
	w, now := newWorld(t), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	w.write(good + "- {id: bad}\n")
	w.has(now, "sp", "CommitmentLeftOut: bad: ", 1)
	w.leading = false
	w.has(now.AddDate(1, 0, 0), "", "", 1)
	w.has(now.AddDate(1, 0, 0), "", "", 0)
	w.leading = true
	w.events = nil
	w.read.refresh(t.Context(), now.AddDate(1, 0, 0))
	if len(w.events) != 2 || !strings.Contains(w.events[0], "sp: end: it ended at ") || !strings.Contains(w.events[1], "bad: ") {
		t.Errorf("Events %q, want one of sp and one of bad", w.events)
	}
}

// A commitment ends, whatever has become of its list since.
func TestTheEndInAListThatCannotBeRead(t *testing.T) {
	w, now := newWorld(t), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	w.write(good + "- {id: ri, kind: ReservedInstances, instanceType: m5.large, count: 1}\n")
	w.has(now, "sp ri", "", 1)
	w.write("sp: 10")
	w.has(now, "sp ri", "CommitmentsUnreadable", 0)
	w.has(now.AddDate(1, 0, 0), "ri", "CommitmentLeftOut: sp: end: it ended at ", 1)
	w.has(now.AddDate(1, 0, 0), "ri", "", 0)
	w.denied = errors.New("forbidden")
	w.has(now.AddDate(1, 0, 0), "ri", "", 0)
}

func TestEventsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.write(strings.Repeat("- {kind: none}\n", 50))
	w.read.refresh(t.Context(), time.Now())
	if len(w.events) != mostEvents || !strings.Contains(w.events[mostEvents-1], "left out as well: 41 more") {
		t.Errorf("%d Events: %q", len(w.events), w.events)
	}
}

func (w *world) unreadable() float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "slipway_commitments_unreadable" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// Nodes use commitments, and so do instances that have no Node yet; an instance with its Node counts once.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	labels := map[string]string{"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
	joined := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "joined", Labels: labels}, Status: karpv1.NodeClaimStatus{ProviderID: "i-1", NodeName: "n"}}
	launched := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "launched", Labels: labels}, Status: karpv1.NodeClaimStatus{ProviderID: "i-2", NodeName: "m"}}
	recorded := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "recorded", Labels: labels}}
	// EC2 bills neither an instance that is stopped for a standby buffer, nor one that it terminates.
	asleep := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "asleep", Labels: labels}, Status: karpv1.NodeClaimStatus{ProviderID: "i-3"}}
	asleep.Annotations = map[string]string{
		catalog.StandbyAnnotation: "buffer", catalog.StandbyStateAnnotation: record.FormatStandby(record.StandbyAsleep, time.Now()),
	}
	over := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "over", Labels: labels}, Status: karpv1.NodeClaimStatus{ProviderID: "i-4"}}
	over.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
	for _, o := range []client.Object{node, joined, launched, recorded, asleep, over} {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.write(good)
	w.read.refresh(t.Context(), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC))
	want := `
# HELP slipway_commitment_left What no node of the cluster uses of a commitment.
# TYPE slipway_commitment_left gauge
slipway_commitment_left{commitment="sp",kind="ComputeSavingsPlan",unit="USD/h"} 0.04
`
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(want), "slipway_commitment_left"); err != nil {
		t.Error(err)
	}
	w.leading = false
	if families, err := w.registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("%v, %v while not leading", families, err)
	}
}

// A cluster's share multiplies that of each commitment.
func TestShare(t *testing.T) {
	w, now := newWorld(t), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	w.read.config.Share = 0.5
	w.read.account = []commitment.Commitment{plan("aws", 3, time.Time{})}
	w.write("- {id: whole, kind: ComputeSavingsPlan, usdPerHour: 2, discountPercent: 20}\n- {id: part, kind: ReservedInstances, instanceType: m5.xlarge, count: 10, sharePercent: 40}\n")
	w.has(now, "whole part aws", "", 1)
	w.has(now, "whole part aws", "", 0)
	for i, want := range []float64{1, 10 * 8 * 0.2, 1.5} {
		if got := w.read.List()[i].Amount(); got != want {
			t.Errorf("%s: %v, want %v", w.read.List()[i].ID, got, want)
		}
	}
	if w.read.own[0].Share != 1 || w.read.account[0].Share != 1 {
		t.Error("what was read is changed")
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	if _, err := New(Config{}); err == nil || cmp.Diff("commitments: ", err.Error()[:len("commitments: ")]) != "" {
		t.Errorf("error %v", err)
	}
}

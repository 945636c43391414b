package health_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server with one NodePool, and a Health.
type world struct {
	t        *testing.T
	api      client.Client
	health   *health.Health
	registry *prometheus.Registry
	events   []string
	// refused are the answers to the next writes of the NodePool's status.
	refused []error
	changes atomic.Int64
	// standby means that another replica leads.
	standby atomic.Bool
}

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(_ runtime.Object, _, reason, format string, args ...any) {
	w.events = append(w.events, reason+": "+fmt.Sprintf(format, args...))
}

func newWorld(t *testing.T) *world {
	t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "pool", Generation: 1}}
	w := &world{t: t}
	w.api = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pool).WithStatusSubresource(pool).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if len(w.refused) > 0 {
				err := w.refused[0]
				w.refused = w.refused[1:]
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	w.restart()
	return w
}

// restart creates a Health without state.
func (w *world) restart() {
	w.t.Helper()
	var err error
	w.registry = prometheus.NewRegistry()
	w.health, err = health.New(health.Config{
		Client: w.api, Reader: w.api, Events: w, Leading: func() bool { return !w.standby.Load() }, Changed: func() { w.changes.Add(1) }, Registerer: w.registry,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pool() *karpv1.NodePool {
	w.t.Helper()
	out := &karpv1.NodePool{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "default"}, out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func claim(name string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}, CreationTimestamp: metav1.Now(),
	}}
}

func (w *world) fails(name string) {
	w.t.Helper()
	if err := w.health.DidNotJoin(w.t.Context(), claim(name), "registration_timeout", "node did not register"); err != nil {
		w.t.Fatal(err)
	}
}

// wantFailures compares the failures to join with so many nodes that did not register. The other reasons are there at 0.
func (w *world) wantFailures(unregistered int) {
	w.t.Helper()
	const name = "slipway_node_join_failures_total"
	want := "# HELP " + name + " Nodes that did not join, by NodePool and reason.\n# TYPE " + name + " counter\n"
	for _, s := range []struct {
		reason string
		n      int
	}{{"instance_failed", 0}, {"readiness_timeout", 0}, {"registration_timeout", unregistered}} {
		want += fmt.Sprintf("%s{nodepool=%q,reason=%q} %d\n", name, "default", s.reason, s.n)
	}
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(want), name); err != nil {
		w.t.Error(err)
	}
}

func (w *world) joins(name string) {
	w.t.Helper()
	if err := w.health.Joined(w.t.Context(), claim(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rejects(name string) {
	w.t.Helper()
	if err := w.health.Rejected(w.t.Context(), claim(name), "OutOfcpu", "Node didn't have enough resource: cpu"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantHealthy(status metav1.ConditionStatus) {
	w.t.Helper()
	if got := w.pool().StatusConditions().Get(karpv1.ConditionTypeNodeRegistrationHealthy).GetStatus(); got != status {
		w.t.Errorf("NodeRegistrationHealthy is %s, want %s", got, status)
	}
}

// Two nodes that do not join hold the NodePool, and its condition and an Event report it, also after a restart. The end of the hold is
// signaled. A node that joins ends it all.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = w.health.Run(ctx) }()
		w.health.Gate(w.pool())
		w.wantFailures(0)
		w.fails("a")
		w.wantHealthy(metav1.ConditionUnknown)
		w.fails("b")
		synctest.Wait()
		w.wantHealthy(metav1.ConditionFalse)
		if g := w.health.Gate(w.pool()); !g.Held || !strings.Contains(g.Why, "node did not register") {
			t.Errorf("gate %+v", g)
		}
		if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "NodesDoNotJoin: its nodes do not join: the last: node did not register") {
			t.Errorf("Events %q", w.events)
		}
		w.wantFailures(2)
		told := w.changes.Load()
		time.Sleep(59 * time.Second)
		if w.changes.Load() != told {
			t.Error("somebody was told before the hold ended")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.changes.Load() != told+1 || w.health.Gate(w.pool()).Held || !w.health.Gate(w.pool()).OneAtATime {
			t.Errorf("told %d times more, gate %+v", w.changes.Load()-told, w.health.Gate(w.pool()))
		}
		cancel()
		synctest.Wait()
		w.restart()
		if g := w.health.Gate(w.pool()); g.Held || !g.OneAtATime {
			t.Errorf("after a restart: gate %+v", g)
		}
		for _, name := range []string{"c", "d", "e"} {
			w.joins(name)
			if g := w.health.Gate(w.pool()); g != (health.Gate{}) {
				t.Errorf("gate %+v after a node has joined", g)
			}
		}
		w.wantHealthy(metav1.ConditionTrue)
		if last := w.events[len(w.events)-1]; !strings.HasPrefix(last, "NodesJoin: ") {
			t.Errorf("Events %q", w.events)
		}
	})
}

// A NodeClaim that is reported twice is one node that did not join: two messages about one instance hold nothing.
func TestFailureCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fails("a")
		w.fails("a")
		if g := w.health.Gate(w.pool()); g.Held {
			t.Errorf("gate %+v after one node", g)
		}
		for i := range 2 * 100 {
			w.joins("b")
			w.fails(fmt.Sprint(i))
		}
		w.fails("a")
		w.fails("c")
		if g := w.health.Gate(w.pool()); !g.Held {
			t.Errorf("gate %+v after two nodes", g)
		}
	})
}

// A changed NodePool need not wait.
func TestAnotherPool(t *testing.T) {
	w := newWorld(t)
	w.fails("a")
	w.fails("b")
	pool := w.pool()
	if !w.health.Gate(pool).Held {
		t.Fatal("not held")
	}
	pool.Generation = 2
	if g := w.health.Gate(pool); g != (health.Gate{}) {
		t.Errorf("gate %+v of a changed pool", g)
	}
}

// One node that rejects pods may be an accident, two switch pre-binding off for an hour.
func TestSwitchOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rejects("a")
		w.rejects("a")
		if why := w.health.SwitchedOff(w.pool()); why != "" {
			t.Errorf("one node switched pre-binding off: %s", why)
		}
		w.rejects("b")
		w.restart() // The condition has the state.
		if why := w.health.SwitchedOff(w.pool()); !strings.Contains(why, "kubelets of 2 nodes rejected pods") {
			t.Errorf("switched off: %q", why)
		}
		another := w.pool()
		another.Generation++
		if why := w.health.SwitchedOff(another); why != "" {
			t.Errorf("a changed pool: %s", why)
		}
		time.Sleep(61 * time.Minute)
		if why := w.health.SwitchedOff(w.pool()); why != "" {
			t.Errorf("after an hour: %s", why)
		}
		w.joins("c")
		if w.pool().StatusConditions().Get(health.ConditionPreBinding) != nil {
			t.Error("the condition stays")
		}
		if last := w.events[len(w.events)-1]; !strings.HasPrefix(last, "PreBindingOn: ") {
			t.Errorf("Events %q", w.events)
		}
	})
}

// The write that switches pre-binding off fails, and then loses a race: it is tried again until it is written.
func TestSwitchOffSurvivesAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rejects("a")
		w.refused = []error{errors.New("the API server is away")}
		if err := w.health.Rejected(t.Context(), claim("b"), "OutOfcpu", "Node didn't have enough resource: cpu"); err == nil {
			t.Error("the write did not fail")
		}
		w.refused = []error{apierrors.NewConflict(corev1.Resource("nodepools"), "default", errors.New("the object has been modified"))}
		w.rejects("c")
		if w.health.SwitchedOff(w.pool()) == "" {
			t.Errorf("pre-binding goes on: %v", w.events)
		}
	})
}

// A replica that leads again goes by what the one that led meanwhile wrote.
func TestAnotherLedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := heldWorld(t)
		if !w.health.Gate(w.pool()).Held {
			t.Fatal("the NodePool is not held")
		}
		w.standby.Store(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		pool := w.pool()
		pool.StatusConditions().SetTrue(karpv1.ConditionTypeNodeRegistrationHealthy)
		if err := w.api.Status().Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		w.standby.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if gate := w.health.Gate(w.pool()); gate.Held || gate.OneAtATime {
			t.Errorf("%+v, while the NodePool's condition is True", gate)
		}
	})
}

// The state of a deleted NodePool is dropped.
func TestPoolThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fails("a")
		w.fails("b")
		if err := w.api.Delete(t.Context(), w.pool()); err != nil {
			t.Fatal(err)
		}
		w.fails("c")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = w.health.Run(ctx) }()
		synctest.Wait()
		if n := testutil.CollectAndCount(w.registry, "slipway_nodepool_held"); n != 0 {
			t.Errorf("%d series of a NodePool that is gone", n)
		}
	})
}

// The rejections of a NodePool are counted from 0, before the first: alerts are on their increase.
func TestRejectionsAreCountedFromZero(t *testing.T) {
	w := newWorld(t)
	w.health.Gate(w.pool())
	want := `
# HELP slipway_prebind_rejected_total Promised pods that a kubelet rejected, by NodePool and the kubelet's reason.
# TYPE slipway_prebind_rejected_total counter
slipway_prebind_rejected_total{nodepool="default",reason="NodeAffinity"} 0
slipway_prebind_rejected_total{nodepool="default",reason="NodeName"} 0
slipway_prebind_rejected_total{nodepool="default",reason="OutOfcpu"} 0
slipway_prebind_rejected_total{nodepool="default",reason="OutOfephemeral-storage"} 0
slipway_prebind_rejected_total{nodepool="default",reason="OutOfmemory"} 0
slipway_prebind_rejected_total{nodepool="default",reason="OutOfpods"} 0
`
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(want), "slipway_prebind_rejected_total"); err != nil {
		t.Error(err)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := health.New(health.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

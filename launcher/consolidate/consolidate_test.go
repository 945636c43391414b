package consolidate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/consolidate"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster in memory, with a scheduler that returns set answers and a mover that records moves.
type world struct {
	t   *testing.T
	api client.Client

	mu     sync.Mutex
	answer *api.ConsolidateAnswer
	asked  []*api.Consolidate
	// time is for how many nodes the scheduler has time, if not for all: with more of them it finds out about none.
	time int
	// refuse is what Start answers.
	refuse error
	moves  []disrupt.Move
	// unsettled says that a move has no room yet.
	unsettled bool
	events    []string
	// counted are the calls of the Metrics that tell of moves.
	counted []string
	// decided are the moves that began, and outlook what the last decision shows after a run.
	decided []string
	outlook view.Consolidation
	// oldest are the ages of the oldest look, as they were reported.
	oldest []time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, answer: &api.ConsolidateAnswer{}}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodeClaim{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	w.api = b.Build()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("30s")
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	w.create(pool)
	for _, name := range []string{"a", "b"} {
		w.node(name)
	}
	return w
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	o.SetUID(types.UID(o.GetName()))
	if err := w.api.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// node creates a node that is an hour old, with a pod, and its claim.
func (w *world) node(name string) {
	w.t.Helper()
	labels := map[string]string{karpv1.NodePoolLabelKey: "default"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.create(node)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-" + name, Labels: labels}}
	w.create(claim)
	claim.Status.NodeName = name
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeConsolidatable)
	if err := w.api.Status().Update(w.t.Context(), claim); err != nil {
		w.t.Fatal(err)
	}
	w.pod("pod-"+name, name)
}

func (w *world) pod(name, node string) {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
	w.create(pod)
}

// run runs a Consolidator for a time.
func (w *world) run(long time.Duration) {
	w.t.Helper()
	c, err := consolidate.New(consolidate.Config{
		Client: w.api, Pods: index.ListPods(w.api), Guard: w, Asker: w, Mover: w, Ledger: w, Metrics: w, Events: w,
		Decided: func(claims []*karpv1.NodeClaim, saving float64, message string) {
			w.decided = append(w.decided, fmt.Sprintf("%d nodes, %.4f USD/h: %s", len(claims), saving, message))
		},
		Settings: consolidate.Settings{Period: 10 * time.Second, Payback: 2 * time.Hour, MinSaving: 0.005, NodeAge: 10 * time.Minute, PodAge: 30 * time.Minute},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(klog.NewContext(w.t.Context(), klog.Logger{}), long)
	defer cancel()
	if err := c.Run(ctx); err != nil {
		w.t.Fatal(err)
	}
	w.outlook = c.Outlook()
}

// Context implements leadership.Guard.
func (w *world) Context(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, true
}

// Wait implements leadership.Guard.
func (w *world) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel, _ := w.Context(ctx)
	return ctx, cancel, ctx.Err()
}

// Consolidate implements the Asker.
func (w *world) Consolidate(_ context.Context, q *api.Consolidate) (*api.ConsolidateAnswer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, q)
	switch {
	case w.answer == nil:
		return nil, errors.New("no stream")
	case w.time > 0:
		return keepAll(q, w.time), nil
	}
	return w.answer, nil
}

// Start implements the Mover.
func (w *world) Start(_ context.Context, m disrupt.Move) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse == nil {
		w.moves = append(w.moves, m)
	}
	return w.refuse
}

// Moving implements the Mover.
func (w *world) Moving(claim types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.moves {
		for _, c := range m.Claims {
			if c.UID == claim {
				return true
			}
		}
	}
	return false
}

// NotBefore implements the Mover.
func (w *world) NotBefore(types.UID) time.Time { return time.Time{} }

// Settling implements the Mover.
func (w *world) Settling() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsettled
}

// Allowed implements the Ledger.
func (w *world) Allowed(context.Context, karpv1.DisruptionReason) (map[string]int, error) {
	return map[string]int{"default": 2}, nil
}

// Eligible implements the Metrics.
func (w *world) Eligible(string, int) {}

// Looked implements the Metrics.
func (w *world) Looked(oldest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldest = append(w.oldest, oldest)
}

// Evaluated implements the Metrics.
func (w *world) Evaluated(string, string, time.Duration) {}

func (w *world) count(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted = append(w.counted, fmt.Sprintf(format, args...))
}

// TimedOut implements the Metrics.
func (w *world) TimedOut(kind string) { w.count("timed out: %s", kind) }

// Judged implements the Metrics.
func (w *world) Judged(approved bool, pool, policy string) {
	w.count("%s %s: %v", pool, policy, approved)
}

// Scored implements the Metrics.
func (w *world) Scored(approved bool, pool, policy string, score float64) {
	w.count("%s %s: %v with %.2f", pool, policy, approved, score)
}

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := o.(*karpv1.NodePool); ok {
		w.events = append(w.events, fmt.Sprintf("NodePool %s %s: %s", p.Name, reason, fmt.Sprintf(format, args...)))
	}
	if p, ok := o.(*corev1.Pod); ok {
		w.events = append(w.events, fmt.Sprintf("Pod %s %s: %s", p.Name, reason, fmt.Sprintf(format, args...)))
	}
	if n, ok := o.(*corev1.Node); ok {
		w.events = append(w.events, fmt.Sprintf("%s %s: %s", n.Name, reason, fmt.Sprintf(format, args...)))
	}
}

func both() *api.ConsolidateAnswer {
	return &api.ConsolidateAnswer{Moves: []*api.PlannedMove{{
		NodeNames: []string{"a", "b"}, Evictions: 2, Saving: 0.3, MostPerHour: 0.1,
		Replacements: []*api.Expected{{InstanceType: "m7g.large", CapacityType: "spot", Price: 0.0358, Cost: &api.Cost{Instance: 0.0336, Volumes: 0.0022}}},
		Avoid:        []string{"next"},
	}}}
}

// TestMovesAreHandedOver checks that each set of nodes that the scheduler returns becomes one move. While the move runs, its
// nodes are blocked in later questions.
func TestMovesAreHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = both()
		w.run(time.Minute)
		if len(w.moves) != 1 || len(w.moves[0].Claims) != 2 || *w.moves[0].MostPerHour != 0.1 || w.moves[0].Reason != karpv1.DisruptionReasonUnderutilized ||
			len(w.moves[0].Avoid) != 1 {
			t.Fatalf("moves %+v", w.moves)
		}
		if want := "replaced by m7g.large spot (0.0358 USD/h: instance 0.0336 + volumes 0.0022), saves 0.3000 USD/h with 2 evictions"; w.moves[0].Message != want {
			t.Errorf("message %q, want %q", w.moves[0].Message, want)
		}
		if len(w.asked) != 1 {
			t.Errorf("asked %d times: both nodes are in a move", len(w.asked))
		}
		if want := "a ConsolidationCandidate: Consolidation candidate: " + w.moves[0].Message; len(w.events) == 0 || w.events[0] != want {
			t.Errorf("events %q, want %q first", w.events, want)
		}
	})
}

// TestPodAge checks that the setting and the NodePool's annotation for the age of pods reach the question.
func TestPodAge(t *testing.T) {
	for _, c := range []struct {
		annotation string
		want       time.Duration
	}{{"", 30 * time.Minute}, {"0s", 0}, {"2h", 2 * time.Hour}, {"soon", 30 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			pool := &karpv1.NodePool{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Name: "default"}, pool); err != nil {
				t.Fatal(err)
			}
			pool.Annotations = map[string]string{catalog.PodAgeAnnotation: c.annotation}
			if err := w.api.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			w.run(time.Second)
			if got := time.Duration(w.asked[0].GetNodes()[0].GetPodAge()) * time.Millisecond; got != c.want {
				t.Errorf("%q: %s, want %s", c.annotation, got, c.want)
			}
		})
	}
}

// TestAsksWhenSomethingChanges checks that an unchanged cluster causes ever fewer questions, down to one every few minutes,
// since prices change. A new pod is a change.
func TestAsksWhenSomethingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = &api.ConsolidateAnswer{Kept: []*api.KeptNode{{Name: "a", Reason: "its pods cost nothing less elsewhere"}}}
		go func() {
			time.Sleep(time.Minute + time.Second)
			w.pod("late", "b")
		}()
		w.run(16 * time.Minute)
		// At 0, 0:10 and 0:30; at 1:10, 1:20, 1:40, 2:20, 3:40, 6:20, 10:20, 14:20.
		if len(w.asked) != 11 {
			t.Errorf("asked %d times, want 11", len(w.asked))
		}
		want := []string{"a Unconsolidatable: its pods cost nothing less elsewhere"}
		if diff := cmp.Diff(want, w.events); diff != "" {
			t.Errorf("within a quarter of an hour a node gets one Event (-want +got):\n%s", diff)
		}
	})
}

// TestReasonsOfProtectedNodesAreRecorded checks that blocked nodes are in the question and get an Event. Without a candidate
// there is no question.
func TestReasonsOfProtectedNodesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"a", "b"} {
			pod := &corev1.Pod{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: "pod-" + name}, pod); err != nil {
				t.Fatal(err)
			}
			pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			if err := w.api.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		w.run(time.Minute)
		if len(w.asked) != 0 {
			t.Errorf("asked %v: nothing may be touched", w.asked)
		}
		if len(w.events) != 2 || !strings.Contains(w.events[0], "web/pod-a") || !strings.Contains(w.events[0], "Unconsolidatable") {
			t.Errorf("events %q", w.events)
		}
	})
}

// TestBudgetsRefuseMoves checks that a refusal by the budgets is recorded, and that the question is repeated when something
// changes.
func TestBudgetsRefuseMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = both()
		w.refuse = &budget.RefusedError{NodePool: "default", Reason: karpv1.DisruptionReasonUnderutilized, Why: "blocking budget"}
		w.run(time.Minute)
		want := "a DisruptionBlocked: No allowed disruptions for disruption reason Underutilized due to blocking budget"
		if len(w.events) != 4 || w.events[2] != want {
			t.Errorf("events %q, want %q", w.events, want)
		}
		if len(w.moves) != 0 {
			t.Errorf("moves %v", w.moves)
		}
	})
}

// TestMovesSettleFirst checks that there is no decision while the pods of a move have no reservations: the scheduler might
// count the move's nodes as free. Afterwards there is one at once.
func TestMovesSettleFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.unsettled = true
		go func() {
			time.Sleep(25 * time.Second)
			if w.mu.Lock(); len(w.asked) != 0 {
				t.Errorf("asked %d times while a move had no room", len(w.asked))
			}
			w.unsettled = false
			w.mu.Unlock()
		}()
		w.run(31 * time.Second)
		if len(w.asked) != 1 {
			t.Errorf("asked %d times, want once, when the move had its room", len(w.asked))
		}
	})
}

// TestSilentScheduler checks that a scheduler without an answer causes no move, and is asked again.
func TestSilentScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = nil
		w.run(31 * time.Second)
		if len(w.asked) != 4 || len(w.moves) != 0 {
			t.Errorf("asked %d times, moves %v", len(w.asked), w.moves)
		}
	})
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := consolidate.New(consolidate.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

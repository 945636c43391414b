package consolidate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

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
	"github.com/slipway-k8s/slipway/launcher/consolidate"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/view"
)

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
	// callsOff says that moves are called off at once.
	callsOff bool
	// unsettled says that a move has no room yet.
	unsettled bool
	events    []string
	// counted are the calls of the Metrics that tell of moves.
	counted []string
	// decided are the moves that have deleted nodes, and outlook what the last decision shows after a run.
	decided []string
	outlook view.Consolidation
	// oldest are the ages of the oldest look, as they were reported.
	oldest []time.Duration
	// eligible are the nodes by reason, as they were reported last, and needed is the NodeClaim on which a CapacityBuffer has room.
	eligible map[string]int
	needed   string
	// before returns what was decided before, where it is set.
	before func() ([]view.Decision, error)
	// another reports whether another process leads.
	another func() bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, answer: &api.ConsolidateAnswer{}, eligible: map[string]int{}}
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
		Client: w.api, Cache: index.List(w.api), Guard: w, Asker: w, Mover: w, Ledger: w, Metrics: w, Events: w,
		Decided: func(claims []*karpv1.NodeClaim, saving float64, evictions int, message string) {
			w.decided = append(w.decided, fmt.Sprintf("%d nodes, %.4f USD/h, %d evictions: %s", len(claims), saving, evictions, message))
		},
		Needed: func(claim *karpv1.NodeClaim) string {
			if claim.Name == w.needed {
				return "a buffer has room on it"
			}
			return ""
		},
		Before: func(context.Context) ([]view.Decision, error) {
			if w.before == nil {
				return nil, nil
			}
			return w.before()
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
	if w.another != nil && w.another() {
		cancel()
		return nil, nil, false
	}
	return ctx, cancel, true
}

// Wait implements leadership.Guard.
func (w *world) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	for w.another != nil && w.another() && ctx.Err() == nil {
		time.Sleep(time.Second)
	}
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
	if w.refuse == nil && !w.callsOff {
		m.OnDelete()
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
				return !w.callsOff
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
func (w *world) Allowed(_ context.Context, reasons ...karpv1.DisruptionReason) (map[karpv1.DisruptionReason]map[string]int, error) {
	out := map[karpv1.DisruptionReason]map[string]int{}
	for _, reason := range reasons {
		out[reason] = map[string]int{"default": 2}
	}
	return out, nil
}

// Eligible implements the Metrics.
func (w *world) Eligible(reason string, nodes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.eligible[reason] = nodes
}

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

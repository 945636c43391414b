package disrupt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/terminate"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lead is leadership that can be lost.
type lead struct{ lost atomic.Bool }

func (l *lead) Context(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, !l.lost.Load()
}

func (l *lead) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	for l.lost.Load() && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, ctx.Err()
}

// flow is an Executor over an API server in memory, with a scheduler that returns set answers.
type flow struct {
	t       *testing.T
	api     client.Client
	lead    *lead
	ender   *terminate.Terminator
	ledger  *budget.Ledger
	counted *voluntary.Metrics
	subject *disrupt.Executor
	// asker, gamble and cached take the place of this scheduler, of the terminator, and of a cache that is never late, where they are set.
	asker  disrupt.Asker
	gamble disrupt.Ender
	cached index.Pods
	// karpenter is true while one runs, theirs are the names of the claims that are not slipway's.
	karpenter atomic.Bool
	theirs    atomic.Pointer[[]string]
	stop      func()
	start     time.Time
	// reads counts the reads from the API server, and guards the lists of PodDisruptionBudgets and what these had.
	reads  atomic.Int64
	guards struct{ lists, items atomic.Int64 }

	mu      sync.Mutex
	trace   strings.Builder
	replies answers
	// passes and fails are how many writes of conditions succeed, and then do not.
	passes, fails int
}

// answers are the scheduler's.
type answers struct {
	silent        bool
	busy, refused string
	// rooms are launched the next time that room is asked for.
	rooms []string
}

// TestFlow runs the files of testdata/flow, each in a bubble of its own time:
//
//	pool nodes=BUDGET                      the NodePool
//	node NAME...                           initialized nodes of it, with their claims
//	pod NAME node=NODE [bare] [tolerates]  a pod on a node, of a ReplicaSet or (bare) without a controller
//	budget POD allowed=N                   a PodDisruptionBudget for the pod
//	annotate POD KEY=VALUE                 such as do-not-disrupt
//	scheduler idle|silent|busy=WHY|refuses=WHY|launches=CLAIM
//	move NODE... [most=USD] [avoid=NODE] [eventual] [counted] [quiet=DURATION]  hands a move over; counted prints when it calls OnDelete, quiet is
//	                                       for how long no pod must have come
//	joins CLAIM                            a claim that was launched is initialized
//	gone CLAIM                             a claim is deleted by another controller
//	interrupted NODE                       EC2 takes the instance: the claim has that reason, and is not deleted yet
//	rests NODE                             prints for how long the node is left alone after a move of it was called off
//	settling                               prints whether a move has no reservations for its pods yet
//	crash                                  a new executor takes the place of this one
//	lose, regain                           leadership
//	conditions passes=N fails=N            N writes of conditions succeed, and then as many fail as it says
//	pass DURATION                          prints what happened meanwhile and the state of the nodes
//
// _ stands for a blank.
func TestFlow(t *testing.T) {
	datadriven.Walk(t, "testdata/flow", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := newFlow(t)
			defer func() { f.stop() }()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				t.Helper()
				return f.command(t.Context(), d)
			})
		})
	})
}

func newFlow(t *testing.T) *flow {
	t.Helper()
	f := &flow{t: t, lead: &lead{}, start: time.Now()}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodeClaim{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	f.api = interceptor.NewClient(b.Build(), interceptor.Funcs{
		List: f.list,
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if f.refuses() {
				return errors.New("the API server does not answer")
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	var err error
	f.ender, err = terminate.New(terminate.Config{
		Client: f.api, Pods: index.ListPods(f.api), Reader: f.api, Cloud: memory.New(memory.Config{}), Asker: f, Guard: f.lead, Events: f, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.ledger, err = budget.New(voluntary.Observe(f.api, index.ListClaims(f.api), index.ListNodes(f.api))); err != nil {
		t.Fatal(err)
	}
	if f.counted, err = voluntary.NewMetrics(prometheus.NewRegistry(), f.ledger, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	f.run()
	return f
}

// refuses reports whether the API server fails the next patch of a condition.
func (f *flow) refuses() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.passes > 0:
		f.passes--
	case f.fails > 0:
		f.fails--
		return true
	}
	return false
}

// run starts an executor.
func (f *flow) run() {
	asker, ender := disrupt.Asker(f), disrupt.Ender(f.ender)
	if f.asker != nil {
		asker, ender = f.asker, f.gamble
	}
	pods := f.cached
	if pods == nil {
		pods = index.ListPods(f.api)
	}
	var err error
	f.subject, err = disrupt.New(disrupt.Config{
		Client: f.api, Pods: pods, Nodes: index.ListNodes(f.api), Reader: countedReader{f.api, &f.reads}, Guard: f.lead, Asker: asker, Ender: ender, Ledger: f.ledger, Metrics: f.counted, Events: f,
		Ours: f.ours, Alone: func() bool { return !f.karpenter.Load() },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(f.t.Context(), klog.Logger{}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.subject.Run(ctx); err != nil {
			f.t.Error(err)
		}
	}()
	f.stop = func() { cancel(); <-done }
	synctest.Wait()
}

func (f *flow) log(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(&f.trace, "%7s "+format+"\n", append([]any{time.Since(f.start).Round(100 * time.Millisecond)}, args...)...)
}

// Eventf implements announce.EventRecorders.
func (f *flow) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	if _, ok := o.(*corev1.Node); ok {
		f.log("%s: %s: %s", o.(client.Object).GetName(), reason, fmt.Sprintf(format, args...))
	}
}

// Busy implements disrupt.Asker.
func (f *flow) Busy(_ context.Context, q *api.NodeBusy) (bool, string, error) {
	now := f.current()
	if now.silent {
		return false, "", errors.New("no stream")
	}
	if !q.GetBuffersMove() {
		return true, "the rooms of buffers are to move with the node", nil
	}
	f.log("asked whether %s is busy", q.GetNodeName())
	return now.busy != "", now.busy, nil
}

// Stream implements terminate.Asker: no other scheduler begins.
func (f *flow) Stream() uint64 { return 0 }

// MakeRoom implements disrupt.Asker, and terminate.Asker: nothing is drained here.
func (f *flow) MakeRoom(ctx context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error) {
	if q.GetPurpose() != api.Purpose_PURPOSE_MOVE {
		return nil, errors.New("not here")
	}
	now := f.current()
	if now.silent {
		return nil, errors.New("no stream")
	}
	bound := ""
	if q.GetBound() != nil {
		bound = fmt.Sprintf(" for %.2f USD/h at most", q.GetBound().GetMostPerHour())
	}
	if avoid := q.GetAvoid(); len(avoid) > 0 {
		bound += ", not on " + strings.Join(avoid, " ")
	}
	f.log("asked for room for %s of %s%s", strings.Join(slices.Sorted(slices.Values(q.GetPods())), " "), strings.Join(q.GetNodeNames(), " "), bound)
	if now.refused != "" {
		return &api.MakeRoomAnswer{NoRoom: now.refused}, nil
	}
	answer := &api.MakeRoomAnswer{}
	for _, name := range now.rooms {
		answer.NodeClaims = append(answer.NodeClaims, name)
		answer.PerHour += 0.05
		f.create(ctx, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}})
	}
	now.rooms = nil
	f.set(now)
	return answer, nil
}

func (f *flow) command(ctx context.Context, d *datadriven.TestData) string {
	name := ""
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "pool":
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: d.CmdArgs[0].Vals[0]}}
		f.create(ctx, pool)
	case "node":
		for _, arg := range d.CmdArgs {
			f.addNode(ctx, arg.Key)
		}
	case "pod":
		f.addPod(ctx, d)
	case "budget":
		f.addBudget(ctx, name, d.CmdArgs[1].Vals[0])
	case "annotate":
		f.change(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}}, func(o client.Object) {
			o.SetAnnotations(map[string]string{d.CmdArgs[1].Key: d.CmdArgs[1].Vals[0]})
		})
	case "scheduler":
		f.answers(d.CmdArgs[0])
	case "conditions":
		d.ScanArgs(f.t, "passes", &f.passes)
		d.ScanArgs(f.t, "fails", &f.fails)
	case "move":
		return f.move(ctx, d)
	default:
		return f.later(ctx, d.Cmd, name)
	}
	return ""
}

// later runs a command during a move.
func (f *flow) later(ctx context.Context, command, name string) string {
	switch command {
	case "joins":
		f.joins(ctx, name)
	case "gone":
		if err := f.api.Delete(ctx, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			f.t.Fatal(err)
		}
	case "interrupted":
		f.interrupted(ctx, name)
	case "rests":
		left := max(time.Until(f.subject.NotBefore(types.UID("claim-"+name))), 0)
		if left < 20*time.Second {
			return fmt.Sprintln(left.Round(10 * time.Second))
		}
		return fmt.Sprintln(left.Round(time.Minute))
	case "crash":
		f.stop()
		f.run()
	case "lose", "regain":
		f.lead.lost.Store(command == "lose")
	case "settling":
		return fmt.Sprintln(f.subject.Settling())
	case "pass":
		duration, err := time.ParseDuration(name)
		if err != nil {
			f.t.Fatal(err)
		}
		// Nothing that the test does falls on a moment in which the executor looks.
		time.Sleep(duration + time.Microsecond)
		synctest.Wait()
		return f.report(ctx)
	default:
		f.t.Fatalf("unknown command %s", command)
	}
	return ""
}

func (f *flow) current() answers {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replies
}

func (f *flow) set(s answers) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies = s
}

func (f *flow) answers(arg datadriven.CmdArg) {
	s := answers{silent: arg.Key == "silent"}
	if len(arg.Vals) > 0 {
		text := strings.ReplaceAll(arg.Vals[0], "_", " ")
		switch arg.Key {
		case "busy":
			s.busy = text
		case "refuses":
			s.refused = text
		case "launches":
			s.rooms = arg.Vals
		}
	}
	f.set(s)
}

func (f *flow) create(ctx context.Context, o client.Object) {
	f.t.Helper()
	o.SetUID(types.UID(o.GetName()))
	o.SetCreationTimestamp(metav1.Now())
	if err := f.api.Create(ctx, o); err != nil {
		f.t.Fatal(err)
	}
}

// change updates the current version of an object.
func (f *flow) change(ctx context.Context, o client.Object, how func(client.Object)) {
	f.t.Helper()
	if err := f.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		f.t.Fatal(err)
	}
	how(o)
	if err := f.api.Update(ctx, o); err != nil {
		f.t.Fatal(err)
	}
}

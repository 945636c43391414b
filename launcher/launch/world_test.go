package launch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/launch"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errCrash = errors.New("crash")

// world is an in-memory API server and EC2, with the Launchers of successive processes.
type world struct {
	t   *testing.T
	api client.WithWatch
	ec2 *memory.Cloud

	subject *launch.Launcher
	stop    func()
	// registry has the metrics of the last process.
	registry *prometheus.Registry

	mu sync.Mutex
	// leading, and changed when it changes; cancels end running effects.
	leading bool
	changed chan struct{}
	cancels map[int]context.CancelCauseFunc
	serial  int
	// before and after are called around what the process does, named by verb and object; an error is its answer.
	before, after func(what string) error
	// answer changes what EC2 answers a launch.
	answer func(call int, out cloud.LaunchOutput) cloud.LaunchOutput
	events []string
	failed []string
	// planned are the claims whose bindings were recorded with the launch.
	planned []string
	tokens  []string
	// settled are the ids of launches that will not be repeated.
	settled []string
	inputs  []cloud.LaunchInput
	// listed is called when a list of NodeClaims begins.
	listed func()
	// shifted are the IDs of zones that a zonal shift is away from, whose instances EC2 shows.
	shifted map[string]bool
	// overlaid are the instance types of NodePools with NodeOverlays.
	overlaid map[string][]catalog.InstanceType
}

func inWorld(t *testing.T, config memory.Config, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		if config.Types == nil {
			config.Types = []catalog.InstanceType{instanceType("m7g.large", 0.08), instanceType("m7g.xlarge", 0.16)}
		}
		w := &world{t: t, ec2: memory.New(config), leading: true, changed: make(chan struct{}), cancels: map[int]context.CancelCauseFunc{}}
		w.api = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodeClaim{}).
			WithInterceptorFuncs(w.interceptors()).Build()
		w.create(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Status: awsv1.EC2NodeClassStatus{InstanceProfile: "nodes"}})
		w.start()
		defer func() { w.stop() }()
		test(t, w)
	})
}

func instanceType(name string, price float64) catalog.InstanceType {
	out := catalog.InstanceType{Name: name, Labels: map[string]string{
		corev1.LabelArchStable: "arm64", corev1.LabelInstanceTypeStable: name, catalog.LabelInstanceTenancy: catalog.TenancyDefault,
	}}
	out.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	out.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1930m")}
	for _, zone := range []string{"us-east-1a", "us-east-1b"} {
		out.Offerings = append(out.Offerings, catalog.Offering{Zone: zone, ZoneID: "id-" + zone, CapacityType: "on-demand", Price: price, Available: true})
		price += 0.001
	}
	return out
}

// start starts a process: a Launcher without state.
func (w *world) start() {
	w.t.Helper()
	w.registry = prometheus.NewRegistry()
	subject, err := launch.New(launch.Config{
		Client: w.api, Reader: w.api, Cloud: brittleCloud{w.ec2, w}, Guard: w, Events: w, Leading: w.leads, Registerer: w.registry,
		Failed: func(c *karpv1.NodeClaim, reason, message string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = append(w.failed, fmt.Sprintf("%s %s: %s", c.Name, reason, message))
		},
		Bindings: w.bindings,
		Overlaid: w.overlaidTypes,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := subject.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.subject = subject
	w.stop = func() { cancel(); <-done }
}

// crash ends the process and begins another, which is handed all claims without an instance, one by one as a restart does.
func (w *world) crash() {
	w.stop()
	w.at("", nil)
	w.start()
	for _, c := range w.claims() {
		w.subject.Enqueue(&c)
		time.Sleep(time.Millisecond)
	}
}

// at has f called before ("before") or after what the process does.
func (w *world) at(when string, f func(what string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = nil, nil
	if when == "before" {
		w.before = f
	} else {
		w.after = f
	}
}

func (w *world) hook(hook *func(what string) error, what string) error {
	w.mu.Lock()
	f := *hook
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(what)
}

// once answers the first thing that begins with prefix with err.
func once(prefix string, err error) func(what string) error {
	var done atomic.Bool
	return func(what string) error {
		if !strings.HasPrefix(what, prefix) || done.Swap(true) {
			return nil
		}
		return err
	}
}

// always answers everything from the first thing on that begins with prefix with err.
func always(prefix string, err error) func(what string) error {
	var begun atomic.Bool
	return func(what string) error {
		if strings.HasPrefix(what, prefix) {
			begun.Store(true)
		}
		if begun.Load() {
			return err
		}
		return nil
	}
}

func (w *world) around(what string, do func() error) error {
	if err := w.hook(&w.before, what); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return w.hook(&w.after, what)
}

func (w *world) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if w.listed != nil {
				w.listed()
			}
			return c.List(ctx, list, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.around("patch "+o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.around(sub+" "+o.GetName(), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.around("delete "+o.GetName(), func() error { return c.Delete(ctx, o, opts...) })
		},
	}
}

// brittleCloud is EC2 over a network.
type brittleCloud struct {
	*memory.Cloud
	w *world
}

func (c brittleCloud) Launch(ctx context.Context, in cloud.LaunchInput) (out cloud.LaunchOutput, err error) {
	c.w.mu.Lock()
	c.w.tokens, c.w.inputs = append(c.w.tokens, in.LaunchID), append(c.w.inputs, in)
	c.w.mu.Unlock()
	err = c.w.around("launch", func() error {
		out, err = c.Cloud.Launch(ctx, in)
		return err
	})
	if c.w.answer != nil && err == nil {
		out = c.w.answer(c.Calls(memory.Launch), out)
	}
	return out, err
}

func (c brittleCloud) Settled(id string) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.settled = append(c.w.settled, id)
}

func (c brittleCloud) Terminate(ctx context.Context, ids []string) error {
	return c.w.around("terminate", func() error { return c.Cloud.Terminate(ctx, ids) })
}

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", o.(client.Object).GetName(), kind, reason, fmt.Sprintf(format, args...)))
}

// written returns the Events so far.
func (w *world) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// lead gives or takes leadership.
func (w *world) lead(leading bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leading = leading
	close(w.changed)
	w.changed = make(chan struct{})
	if !leading {
		for _, cancel := range w.cancels {
			cancel(leadership.ErrLost)
		}
	}
}

// Context implements leadership.Guard.
func (w *world) Context(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.leading {
		return ctx, func() {}, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w.serial++
	id := w.serial
	w.cancels[id] = cancel
	return ctx, func() {
		cancel(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.cancels, id)
	}, true
}

// Wait implements leadership.Guard.
func (w *world) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if ctx, cancel, ok := w.Context(ctx); ok {
			return ctx, cancel, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-changed:
		}
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.api.Create(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
}

// newClaim is a NodeClaim as the server records it.
func (w *world) newClaim(name string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), Finalizers: []string{karpv1.TerminationFinalizer}, CreationTimestamp: metav1.Now(),
		Labels:      map[string]string{karpv1.NodePoolLabelKey: "default"},
		Annotations: map[string]string{catalog.InstanceTypesAnnotation: "m7g.large,m7g.xlarge"},
	}}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	return c
}

func (w *world) claims() []karpv1.NodeClaim {
	w.t.Helper()
	var list karpv1.NodeClaimList
	if err := w.api.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// settle advances the time, then waits until nothing changes.
func (w *world) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// state is what claims have, by name: an instance's type and zone, a condition, or their end.
func (w *world) state() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, c := range w.claims() {
		state := "no instance"
		switch {
		case !c.DeletionTimestamp.IsZero():
			state = "going"
		case c.Status.ProviderID != "":
			state = fmt.Sprintf("%s %s", c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone])
		}
		out[c.Name] = state
	}
	return out
}

// owners checks that no instance has two claims and none runs without one.
func (w *world) owners() {
	w.t.Helper()
	owner := map[string]string{}
	for _, c := range w.claims() {
		if id := c.Status.ProviderID; id != "" {
			if owner[id] != "" {
				w.t.Errorf("%s belongs to %s and to %s", id, owner[id], c.Name)
			}
			owner[id] = c.Name
		}
	}
	ids := slices.Sorted(maps.Keys(owner))
	for i := range ids {
		ids[i] = ids[i][strings.LastIndex(ids[i], "/")+1:]
	}
	slices.Sort(ids)
	if live := w.ec2.Live(); !slices.Equal(live, ids) {
		w.t.Errorf("live instances %v, those of claims %v", live, ids)
	}
}

func (w *world) attempts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	tokens := slices.Clone(w.tokens)
	slices.Sort(tokens)
	return len(slices.Compact(tokens))
}

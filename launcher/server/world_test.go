package server_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen, on a machine however busy.
const patience = 2 * time.Minute

// world is a Server on a real socket over an API server and a cloud in memory.
type world struct {
	t       testing.TB
	socket  string
	config  server.Config
	api     client.WithWatch
	cache   *informertest.FakeInformers
	cloud   *memory.Cloud
	subject *server.Server
	client  api.LauncherClient
	peer    *server.Peer
	metrics *prometheus.Registry
	// standby means that the scheduler in the same pod does not lead.
	standby atomic.Bool
	// bound is the UID of a pod that the launcher has bound; nil for none.
	bound atomic.Pointer[string]
	// foreign means that a running Karpenter manages every NodePool.
	foreign atomic.Bool
	// readerAway means that the API server does not answer reads past the cache.
	readerAway atomic.Bool
	// gate is every NodePool's; nil is an open one.
	gate atomic.Pointer[health.Gate]
	// committed are the commitments; nil for none.
	committed atomic.Pointer[[]commitment.Commitment]
	// handed are the names of the claims that were handed on to be launched.
	handed chan string
	// held are the names of the claims that are being recorded.
	held sync.Map
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	return newWorldOver(t, func(c client.WithWatch) client.Client { return c }, types(), objects...)
}

// newWorldOver returns a world whose Server reaches the API server through a client of the test.
func newWorldOver(tb testing.TB, through func(client.WithWatch) client.Client, types []catalog.InstanceType, objects ...client.Object) *world {
	tb.Helper()
	w := idleWorld(tb, through, types, objects...)
	var err error
	if w.subject, err = server.New(w.config); err != nil {
		tb.Fatal(err)
	}
	w.run()
	w.client = w.dial()
	return w
}

// idleWorld returns a world without a Server.
func idleWorld(tb testing.TB, through func(client.WithWatch) client.Client, types []catalog.InstanceType, objects ...client.Object) *world {
	tb.Helper()
	w := &world{
		t: tb, socket: filepath.Join(tb.TempDir(), "launcher.sock"), cache: &informertest.FakeInformers{}, metrics: prometheus.NewRegistry(),
		cloud: memory.New(memory.Config{Types: types}), handed: make(chan string, 10_000),
	}
	for _, o := range []client.Object{&karpv1.NodePool{}, &karpv1.NodeClaim{}, &corev1.Node{}, &awsv1.EC2NodeClass{}} {
		if _, err := w.cache.GetInformer(tb.Context(), o); err != nil {
			tb.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(w.events()).WithObjects(objects...).
		WithStatusSubresource(&karpv1.NodeClaim{}, &karpv1.NodePool{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { builder.WithIndex(o, field, value) })
	w.api = builder.Build()
	peer, err := server.NewPeer(w.metrics, leader{w}.Leading)
	if err != nil {
		tb.Fatal(err)
	}
	w.peer = peer
	reads := through(w.api)
	w.config = server.Config{
		Socket: w.socket, Client: reads, Pods: index.ListPods(w.api), Claims: index.ListClaims(reads), Reader: reader{w}, Cache: w.cache, Offers: w.cloud, Leader: leader{w}, Launcher: launcher{w}, Peer: peer,
		Patience: record.Patience{Promised: 5 * time.Minute, Empty: 15 * time.Minute}, Leaving: func(context.Context) []string { return []string{"drifted"} },
		InMove:  func(node string) bool { return node == "moves" },
		Manages: func(*karpv1.NodePool) (bool, string) { return !w.foreign.Load(), "Karpenter lives" },
		Commitments: func() []commitment.Commitment {
			if list := w.committed.Load(); list != nil {
				return *list
			}
			return nil
		},
		Bound: func(uid apitypes.UID) bool {
			only := w.bound.Load()
			return only != nil && *only == string(uid)
		},
		Gate: func(*karpv1.NodePool) health.Gate {
			if g := w.gate.Load(); g != nil {
				return *g
			}
			return health.Gate{}
		},
	}
	return w
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.subject.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
		w.held.Range(func(name, _ any) bool {
			w.t.Errorf("%s is held for ever", name)
			return true
		})
	})
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		// The file is there a moment before anybody listens.
		if conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "unix", w.socket); err == nil {
			_ = conn.Close()
			return
		} else if time.Since(began) > patience {
			w.t.Fatal(err)
		}
	}
}

// dial is a scheduler of the same version.
func (w *world) dial() api.LauncherClient { return w.dialAs(api.OwnVersion()) }

// dialAs is a scheduler that speaks a version of the contract.
func (w *world) dialAs(version *api.Version) api.LauncherClient {
	conn, err := grpc.NewClient("unix://"+w.socket, append(speaking(version), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return api.NewLauncherClient(conn)
}

// events replaces the informers: the fake client has none.
func (w *world) events() interceptor.Funcs {
	tell := func(o client.Object) error {
		informer, err := w.cache.FakeInformerFor(context.Background(), o)
		if err == nil {
			informer.Update(o, o)
		}
		return err
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return errors.Join(c.Create(ctx, o, opts...), tell(o))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return errors.Join(c.Update(ctx, o, opts...), tell(o))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return errors.Join(c.Delete(ctx, o, opts...), tell(o))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return errors.Join(c.Patch(ctx, o, p, opts...), tell(o))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return errors.Join(c.SubResource(sub).Update(ctx, o, opts...), tell(o))
		},
	}
}

// claim reads a NodeClaim.
func (w *world) claim(name string) *karpv1.NodeClaim {
	w.t.Helper()
	out := &karpv1.NodeClaim{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// launch sends a request and returns the results of its claims and placements by name.
func (w *world) launch(in *api.LaunchRequest) map[string]*api.Result {
	w.t.Helper()
	answer, err := w.client.Launch(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]*api.Result{}
	for _, r := range append(answer.GetClaims(), answer.GetPlacements()...) {
		out[r.GetName()] = r
	}
	return out
}

// watch opens a catalog stream and returns its updates as a channel.
func (w *world) watch(c api.LauncherClient) <-chan *api.CatalogUpdate {
	w.t.Helper()
	stream, err := c.WatchCatalog(w.t.Context(), &api.WatchCatalogRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	out := make(chan *api.CatalogUpdate, 10_000)
	go func() {
		for {
			u, err := stream.Recv()
			if err != nil {
				close(out)
				return
			}
			out <- u
		}
	}()
	return out
}

// await returns the first update that satisfies.
func (w *world) await(updates <-chan *api.CatalogUpdate, what string, satisfies func(*api.CatalogUpdate) bool) *api.CatalogUpdate {
	w.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case u := <-updates:
			if u == nil {
				w.t.Fatalf("the stream ended before %s", what)
			}
			if satisfies(u) {
				return u
			}
		case <-timeout:
			w.t.Fatalf("no update: %s", what)
		}
	}
}

// reader is the API server past the cache.
type reader struct{ w *world }

func (r reader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if r.w.readerAway.Load() {
		return errReset
	}
	return r.w.api.Get(ctx, key, o, opts...)
}

func (r reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if r.w.readerAway.Load() {
		return errReset
	}
	return r.w.api.List(ctx, list, opts...)
}

type leader struct{ w *world }

func (l leader) Context(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, !l.w.standby.Load()
}

func (l leader) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel, _ := l.Context(ctx)
	return ctx, cancel, ctx.Err()
}

func (leader) Lead(identity, _, _ string) error {
	if identity == "" {
		return errors.New("identity is required")
	}
	return nil
}

func (leader) Refresh(context.Context) error { return nil }

func (l leader) Leading() bool { return !l.w.standby.Load() }

func (leader) Resign(context.Context) error { return nil }

type launcher struct{ w *world }

// Hold notes the names; the held ones are handed on before they are released. All claims of one call that are stamped get the same ID.
func (l launcher) Hold(names []string) (stamp func(*karpv1.NodeClaim), release func()) {
	for _, name := range names {
		l.w.held.Store(name, true)
	}
	id := uuid.NewString()
	stamp = func(c *karpv1.NodeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, catalog.LaunchAnnotation, id)
	}
	return stamp, func() {
		for _, name := range names {
			l.w.held.Delete(name)
		}
	}
}

func (l launcher) Enqueue(claims ...*karpv1.NodeClaim) {
	for _, c := range claims {
		if _, held := l.w.held.Load(c.Name); !held {
			l.w.t.Errorf("%s is handed on after others could have launched it alone", c.Name)
		}
		l.w.handed <- c.Name
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func types() []catalog.InstanceType {
	offerings := []catalog.Offering{{Zone: "us-east-1a", ZoneID: "use1-az1", CapacityType: "on-demand", Price: 0.1, Available: true}}
	return []catalog.InstanceType{
		{Name: "c7g.large", Capacity: resources("2", "4Gi"), Allocatable: resources("1900m", "3Gi"), Offerings: offerings},
		{Name: "m7g.large", Capacity: resources("2", "8Gi"), Allocatable: resources("1800m", "7Gi"), Offerings: offerings},
	}
}

// ready is a NodePool that may launch, with its class.
func ready(name string, limits karpv1.Limits) []client.Object {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-pool"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: name}
	pool.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}}
	pool.Spec.Limits = limits
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	return []client.Object{pool, &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

func planned(name, pool string, uids ...string) *api.Claim {
	out := &api.Claim{
		Name: name, NodePool: pool, InstanceTypes: []string{"c7g.large", "m7g.large"}, Requests: map[string]string{"cpu": "1"},
		Expected: &api.Expected{InstanceType: "c7g.large", Zone: "us-east-1a", CapacityType: "on-demand", Price: 0.1},
	}
	for _, uid := range uids {
		out.Pods = append(out.Pods, &api.PodRef{Namespace: "default", Name: "pod-" + uid, Uid: uid})
	}
	return out
}

// pending returns a pod of the UID, with the name that planned gives it.
func pending(uid string) client.Object {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + uid, UID: apitypes.UID(uid)}}
}

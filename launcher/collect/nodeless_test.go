package collect_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	events "k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/collect"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// initialized returns a claim of an instance, whose node has joined.
func initialized(name, instance string) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now(), Annotations: map[string]string{}, Labels: map[string]string{awsv1.LabelTopologyZoneID: "use1-az1"},
	}}
	claim.Status.ProviderID, claim.Status.NodeName = "aws:///us-east-1a/"+instance, "node-of-"+name
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	return claim
}

func nodeOf(claim *karpv1.NodeClaim, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: claim.Status.NodeName}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// asking is a cloud that may still ask AWS for zonal shifts.
type asking struct {
	*memory.Cloud
	asks atomic.Bool
}

// ShiftedZones implements collect.Instances.
func (a *asking) ShiftedZones() (zones map[string]bool, known bool) {
	if a.asks.Load() {
		return nil, false
	}
	return a.Cloud.ShiftedZones()
}

// nodeless is a cluster of claims whose Nodes are gone, in the API server and in the cache.
type nodeless struct {
	t          *testing.T
	ec2        *asking
	guard      *lead
	api, cache client.Client

	mu    sync.Mutex
	begun []string
}

func newNodeless(t *testing.T, ctx context.Context) *nodeless {
	t.Helper()
	s := &nodeless{t: t, ec2: &asking{Cloud: memory.New(memory.Config{})}, guard: &lead{}}
	s.api, s.cache = fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	subject, err := collect.New(collect.Config{
		Reader: s.api, Client: s.cache, Cloud: s.ec2, Guard: s.guard, Ender: s, Events: &events.FakeRecorder{},
		Ours: func(claim *karpv1.NodeClaim) bool { return claim.Name != "foreign" },
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = subject.Run(ctx) }()
	return s
}

// create creates objects in the API server, which the cache shows.
func (s *nodeless) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		for _, c := range []client.Client{s.api, s.cache} {
			if err := c.Create(s.t.Context(), o.DeepCopyObject().(client.Object)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// Begin implements collect.Ender.
func (s *nodeless) Begin(_ context.Context, claim *karpv1.NodeClaim, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = append(s.begun, claim.Name+" "+reason)
	return nil
}

func (s *nodeless) ended(name string) bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.begun, name+" garbage_collected")
}

// A claim whose Node was deleted without its finalizer is ended two minutes later: nothing else would end its instance. What may have a Node again, or has
// none for another reason, stays.
func TestClaimWithoutNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newNodeless(t, ctx)
		s.guard.acquire()
		claims := map[string]*karpv1.NodeClaim{}
		for name, state := range map[string]cloud.InstanceState{
			"gone": "", "foreign": "", "booting": "", "asleep": "", "there": "", "returns": "", "unnamed": "", "late": "", "shifted": "", "stopped": cloud.StateStopped,
		} {
			if state == "" {
				state = cloud.StateRunning
			}
			zone := "use1-az1"
			if name == "shifted" {
				zone = "use1-az2"
			}
			claims[name] = initialized(name, s.ec2.Put(cloud.Instance{State: state, ZoneID: zone}))
			claims[name].Labels[awsv1.LabelTopologyZoneID] = zone
		}
		s.ec2.Shift("use1-az2")
		claims["booting"].StatusConditions().SetUnknown(karpv1.ConditionTypeInitialized)
		claims["asleep"].Annotations[catalog.StandbyAnnotation] = "buffer"
		claims["asleep"].Annotations[catalog.StandbyStateAnnotation] = record.FormatStandby(record.StandbyAsleep, time.Now())
		for _, claim := range claims {
			s.create(claim)
		}
		s.create(nodeOf(claims["there"], claims["there"].Status.ProviderID), nodeOf(claims["unnamed"], ""))
		if err := s.api.Create(ctx, nodeOf(claims["late"], claims["late"].Status.ProviderID)); err != nil { // The cache lags.
			t.Fatal(err)
		}
		time.Sleep(100 * time.Second)
		s.create(nodeOf(claims["returns"], ""))
		if s.ended("gone") {
			t.Error("it was ended within two minutes")
		}
		time.Sleep(8 * time.Minute)
		cancel()
		synctest.Wait()
		for name := range claims {
			if s.ended(name) != (name == "gone") {
				t.Errorf("%s: ended %t", name, s.ended(name))
			}
		}
	})
}

// A Node may have come and gone while another replica led, or while it is not known which zones a zonal shift is away from.
func TestClaimWithoutNodeIsWatchedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newNodeless(t, ctx)
		s.create(initialized("gone", s.ec2.Put(cloud.Instance{State: cloud.StateRunning})))
		s.guard.acquire()
		time.Sleep(time.Minute)
		s.guard.lose()
		time.Sleep(10 * time.Minute)
		s.guard.acquire()
		time.Sleep(100 * time.Second)
		if s.ended("gone") {
			t.Error("it was ended as soon as leadership was acquired")
		}
		s.ec2.asks.Store(true)
		time.Sleep(2 * time.Minute)
		if s.ended("gone") {
			t.Error("it was ended although its zone may have a zonal shift")
		}
		s.ec2.asks.Store(false)
		time.Sleep(2*time.Minute + 10*time.Second)
		cancel()
		synctest.Wait()
		if !s.ended("gone") {
			t.Error("it was not ended")
		}
	})
}

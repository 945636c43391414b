package collect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/collect"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type ender struct{ begun []string }

func (e *ender) Begin(_ context.Context, claim *karpv1.NodeClaim, reason string) error {
	e.begun = append(e.begun, claim.Name+" "+reason)
	return nil
}

// A leak and a lost claim are found within the first rounds, and a throttled EC2 only delays that.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2 := memory.New(memory.Config{})
		leaked := ec2.Put(cloud.Instance{})
		ec2.Fail(memory.Instances, memory.ErrThrottled, memory.ErrThrottled)
		ec2.Fail(memory.Terminate, errors.New("InternalError"))
		lost := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", CreationTimestamp: metav1.Now()}}
		lost.Status.ProviderID = "aws:///us-east-1a/i-gone"
		kept := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", CreationTimestamp: metav1.Now()}}
		kept.Status.ProviderID = "aws:///us-east-1a/i-hidden"
		ready := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}} // A NodeClaim without a NodePool: its Node has no label of one.
		ready.Spec.ProviderID = kept.Status.ProviderID
		ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		e := &ender{}
		api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(lost, kept, ready).Build()
		subject, err := collect.New(collect.Config{
			Reader: api, Client: api, Cloud: ec2, Guard: leadershiptest.Always{}, Ender: e, Events: &record.FakeRecorder{},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = subject.Run(ctx) }()
		time.Sleep(25 * time.Second)
		if live := ec2.Live(); !slices.Contains(live, leaked) {
			t.Errorf("instance %s was ended at the age of 25 s", leaked)
		}
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if live := ec2.Live(); len(live) > 0 {
			t.Errorf("still live: %v", live)
		}
		if !slices.Contains(e.begun, "default-1 garbage_collected") {
			t.Errorf("the claim without an instance was not ended: %v", e.begun)
		}
		if slices.Contains(e.begun, "by-hand garbage_collected") {
			t.Error("a claim whose Node is Ready was ended because EC2 did not show its instance")
		}
	})
}

// asked counts the questions about all instances. All are too young to be garbage.
type asked struct {
	*memory.Cloud
	instances int
	times     atomic.Int32
}

// Instances counts.
func (a *asked) Instances(context.Context, cloud.Selector) ([]cloud.Instance, error) {
	a.times.Add(1)
	return slices.Repeat([]cloud.Instance{{ID: "i-1", LaunchTime: time.Now()}}, a.instances), nil
}

// EC2 is asked about a few instances every two minutes, and about thousands every five.
func TestRoundsAreRarerWithManyInstances(t *testing.T) {
	for instances, want := range map[int]int{10: 29, 10_000: 12} {
		synctest.Test(t, func(t *testing.T) {
			ec2 := &asked{Cloud: memory.New(memory.Config{}), instances: instances}
			api := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
			subject, err := collect.New(collect.Config{Reader: api, Client: api, Cloud: ec2, Guard: leadershiptest.Always{}, Ender: &ender{}, Events: &record.FakeRecorder{}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = subject.Run(ctx) }()
			time.Sleep(10 * time.Minute)
			before := ec2.times.Load()
			time.Sleep(time.Hour)
			cancel()
			synctest.Wait()
			if got := int(ec2.times.Load() - before); got < want || got > want+1 {
				t.Errorf("EC2 was asked %d times in an hour about %d instances, want %d", got, instances, want)
			}
		})
	}
}

// refusing is a cloud with an instance that it never terminates.
type refusing struct {
	*memory.Cloud
	times atomic.Int32
}

// Terminate refuses.
func (r *refusing) Terminate(context.Context, []string) error {
	r.times.Add(1)
	return errors.New("OperationNotPermitted: the instance may not be terminated")
}

// An instance that EC2 does not terminate is no reason to look at the whole cluster every ten seconds for ever.
func TestRefusedTerminationsAreRarer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2 := &refusing{Cloud: memory.New(memory.Config{})}
		ec2.Put(cloud.Instance{LaunchTime: time.Now().Add(-time.Hour)})
		api := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
		subject, err := collect.New(collect.Config{Reader: api, Client: api, Cloud: ec2, Guard: leadershiptest.Always{}, Ender: &ender{}, Events: &record.FakeRecorder{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = subject.Run(ctx) }()
		time.Sleep(time.Minute)
		if got := ec2.times.Load(); got < 3 {
			t.Errorf("tried %d times in the first minute, want 3", got)
		}
		time.Sleep(time.Hour)
		cancel()
		synctest.Wait()
		if got := ec2.times.Load(); got < 30 || got > 36 {
			t.Errorf("tried %d times in an hour, want once in two minutes", got)
		}
	})
}

// reads counts the lists of a client.
type reads struct {
	client.Client
	lists int
}

// List counts.
func (r *reads) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.lists++
	return r.Client.List(ctx, list, opts...)
}

// What the cache does not show as leaked is not looked for at the API server. What it does is judged by what the API server says.
func TestTheAPIServerIsReadOnSuspicion(t *testing.T) {
	claim := func(name, id string) *karpv1.NodeClaim {
		out := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now()}}
		out.Status.ProviderID = "aws:///us-east-1a/" + id
		return out
	}
	ec2 := memory.New(memory.Config{})
	owned := ec2.Put(cloud.Instance{Zone: "us-east-1a", LaunchTime: time.Now().Add(-time.Hour)})
	api := &reads{Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim("default-1", owned)).Build()}
	for name, c := range map[string]struct {
		cache client.Client
		lists int
	}{
		"the cache has the claim": {fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim("default-1", owned)).Build(), 0},
		"the cache lags":          {fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), 2},
	} {
		t.Run(name, func(t *testing.T) {
			api.lists = 0
			subject, err := collect.New(collect.Config{Reader: api, Client: c.cache, Cloud: ec2, Guard: leadershiptest.Always{}, Ender: &ender{}, Events: &record.FakeRecorder{}})
			if err != nil {
				t.Fatal(err)
			}
			if err := subject.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			if api.lists != c.lists {
				t.Errorf("%d lists of the API server, want %d", api.lists, c.lists)
			}
			if live := ec2.Live(); !slices.Equal(live, []string{owned}) {
				t.Errorf("live instances: %v", live)
			}
		})
	}
}

// counted is a cloud that terminates nothing and counts what it is asked.
type counted struct {
	*memory.Cloud
	described  int
	terminated []string
}

// Instances counts.
func (c *counted) Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error) {
	c.described++
	return c.Cloud.Instances(ctx, sel)
}

// Terminate refuses.
func (c *counted) Terminate(_ context.Context, ids []string) error {
	c.terminated = slices.Sorted(slices.Values(ids))
	return errors.New("OperationNotPermitted: the instance may not be terminated")
}

// An instance that EC2 does not terminate is tried again in each round, and has the cluster read once. A new one has it read once more, and one whose owner
// the cache has by now is left alone.
func TestTheAPIServerIsReadOnceForARefusedTermination(t *testing.T) {
	ec2 := &counted{Cloud: memory.New(memory.Config{})}
	api := &reads{Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()}
	cache := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	subject, err := collect.New(collect.Config{Reader: api, Client: cache, Cloud: ec2, Guard: leadershiptest.Always{}, Ender: &ender{}, Events: &record.FakeRecorder{}})
	if err != nil {
		t.Fatal(err)
	}
	leak := func() string { return ec2.Put(cloud.Instance{LaunchTime: time.Now().Add(-time.Hour)}) }
	first := leak()
	second := ""
	for _, step := range []struct {
		what             string
		change           func() error
		lists, described int
		terminated       func() []string
	}{
		{"a leak", func() error { return nil }, 2, 2, func() []string { return []string{first} }},
		{"the same one", func() error { return nil }, 0, 1, func() []string { return []string{first} }},
		{"again", func() error { return nil }, 0, 1, func() []string { return []string{first} }},
		{"another one", func() error { second = leak(); return nil }, 2, 2, func() []string { return []string{first, second} }},
		{"both", func() error { return nil }, 0, 1, func() []string { return []string{first, second} }},
		{"one has an owner", func() error {
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", CreationTimestamp: metav1.Now()}}
			claim.Status.ProviderID = "aws:///us-east-1a/" + first
			return cache.Create(t.Context(), claim)
		}, 0, 1, func() []string { return []string{second} }},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		api.lists, ec2.described, ec2.terminated = 0, 0, nil
		if err := subject.Collect(t.Context()); err == nil {
			t.Errorf("%s: no error", step.what)
		}
		if api.lists != step.lists || ec2.described != step.described || !slices.Equal(ec2.terminated, step.terminated()) {
			t.Errorf("%s: %d lists of the API server, EC2 described %d times, terminated %v; want %d, %d and %v",
				step.what, api.lists, ec2.described, ec2.terminated, step.lists, step.described, step.terminated())
		}
	}
}

// shifting is a cloud that may not have asked for zonal shifts yet.
type shifting struct {
	*memory.Cloud
	known bool
}

// ShiftedZones implements collect.Instances.
func (s *shifting) ShiftedZones() (zones map[string]bool, known bool) {
	if !s.known {
		return nil, false
	}
	return s.Cloud.ShiftedZones()
}

// While a zonal shift is away from a zone, or may be, EC2 may show none of its instances: their claims stay, and end after the shift if the instances are
// gone.
func TestZonalShiftHidesInstances(t *testing.T) {
	ec2 := &shifting{Cloud: memory.New(memory.Config{})}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Labels: map[string]string{awsv1.LabelTopologyZoneID: "use1-az1"}}}
	claim.Status.ProviderID = "aws:///us-east-1a/i-gone"
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim).Build()
	e := &ender{}
	subject, err := collect.New(collect.Config{Reader: api, Client: api, Cloud: ec2, Guard: leadershiptest.Always{}, Ender: e, Events: &record.FakeRecorder{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ shifted, ended string }{{"", "[]"}, {"use1-az1", "[]"}, {"use1-az2", "[default-1 garbage_collected]"}} {
		ec2.Shift(step.shifted)
		ec2.known = step.shifted != ""
		if err := subject.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.begun); got != step.ended {
			t.Errorf("with a shift away from %s, %s ended, want %s", step.shifted, got, step.ended)
		}
	}
}

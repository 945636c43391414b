package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// lagging is an API server behind a cache that shows NodeClaims late, as an informer does. It checks every created NodeClaim against the
// limits, as if EC2 always chose the most expensive instance type that a claim allows.
type lagging struct {
	client.WithWatch
	t     *testing.T
	types map[string]catalog.InstanceType

	mu     sync.Mutex
	shown  []karpv1.NodeClaim
	limits corev1.ResourceList
	// cpu, memory and nodes are the most that was ever used.
	cpu, memory int64
	nodes       int
}

// catchUp shows what there is.
func (l *lagging) catchUp(ctx context.Context) {
	var list karpv1.NodeClaimList
	if err := l.WithWatch.List(ctx, &list); err != nil {
		l.t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = list.Items
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	claims, ok := list.(*karpv1.NodeClaimList)
	if !ok {
		return l.WithWatch.List(ctx, list, opts...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.shown {
		claims.Items = append(claims.Items, *l.shown[i].DeepCopy())
	}
	return nil
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	claim, ok := o.(*karpv1.NodeClaim)
	if !ok {
		return l.WithWatch.Get(ctx, key, o, opts...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.shown {
		if l.shown[i].Name == key.Name {
			l.shown[i].DeepCopyInto(claim)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}, key.Name)
}

// Create checks the limits, and sometimes returns an error after success, as a call with a lost answer does.
func (l *lagging) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := l.WithWatch.Create(ctx, o, opts...); err != nil {
		return err
	}
	l.check(ctx)
	if rand.IntN(10) == 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func (l *lagging) check(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list karpv1.NodeClaimList
	if err := l.WithWatch.List(ctx, &list); err != nil {
		l.t.Error(err)
	}
	var cpu, memory int64
	for i := range list.Items {
		var c, m int64
		for _, name := range record.InstanceTypes(&list.Items[i]) {
			t := l.types[name]
			c, m = max(c, t.Capacity.Cpu().Value()), max(m, t.Capacity.Memory().Value())
		}
		cpu, memory = cpu+c, memory+m
	}
	l.cpu, l.memory, l.nodes = max(l.cpu, cpu), max(l.memory, memory), max(l.nodes, len(list.Items))
	if nodes := l.limits["nodes"]; cpu > l.limits.Cpu().Value() || memory > l.limits.Memory().Value() || int64(len(list.Items)) > nodes.Value() {
		l.t.Errorf("%d nodes with up to %d CPUs and %d bytes: more than %v", len(list.Items), cpu, memory, l.limits)
	}
}

// Limits are exact: no NodePool ever exceeds them, whatever EC2 chooses, with concurrent and repeated requests, with claims that end
// meanwhile, and however far the cache lags.
func TestLimitsAreNeverExceeded(t *testing.T) {
	var all []catalog.InstanceType
	byName := map[string]catalog.InstanceType{}
	for _, cpus := range []int{2, 4, 8, 16} {
		for _, family := range []string{"c", "m", "r"} {
			gib := cpus * map[string]int{"c": 2, "m": 4, "r": 8}[family]
			it := catalog.InstanceType{Name: fmt.Sprintf("%s7g.%d", family, cpus), Capacity: resources(fmt.Sprint(cpus), fmt.Sprintf("%dGi", gib)), Offerings: types()[0].Offerings}
			all = append(all, it)
			byName[it.Name] = it
		}
	}
	limits := karpv1.Limits{corev1.ResourceCPU: resource.MustParse("301"), corev1.ResourceMemory: resource.MustParse("1500Gi"), "nodes": resource.MustParse("60")}
	l := &lagging{t: t, types: byName, limits: corev1.ResourceList(limits)}
	w := newWorldOver(t, func(c client.WithWatch) client.Client { l.WithWatch = c; return l }, all, ready("default", limits)...)
	stop := make(chan struct{})
	var background, requests sync.WaitGroup
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
				l.catchUp(t.Context())
			}
		}
	})
	for worker := range 8 {
		requests.Go(func() {
			for n := range 7 {
				in := &api.LaunchRequest{}
				for i := range 1 + rand.IntN(4) {
					in.Claims = append(in.Claims, anyClaim(fmt.Sprintf("default-%d-%d-%d", worker, n, i), all))
				}
				for range 1 + rand.IntN(2) { // Sent again, as after a lost answer.
					if _, err := w.client.Launch(t.Context(), in); err != nil {
						t.Error(err)
					}
				}
				if rand.IntN(3) == 0 {
					l.endOne(t.Context())
				}
			}
		})
	}
	requests.Wait()
	close(stop)
	background.Wait()
	// Reservations for claims that ended before the cache had shown them are released later: two thirds of a limit are used.
	if l.cpu < 200 && l.memory < 1000<<30 && l.nodes < 40 {
		t.Errorf("at most %d of 301 CPUs, %d bytes of 1500 GiB and %d of 60 nodes were used", l.cpu, l.memory, l.nodes)
	}
}

// anyClaim names a few instance types of which any is expected.
func anyClaim(name string, types []catalog.InstanceType) *api.Claim {
	out := &api.Claim{Name: name, NodePool: "default"}
	for _, i := range rand.Perm(len(types))[:1+rand.IntN(6)] {
		out.InstanceTypes = append(out.InstanceTypes, types[i].Name)
	}
	out.Expected = &api.Expected{InstanceType: out.InstanceTypes[0], Zone: "us-east-1a", CapacityType: "on-demand", Price: 0.1}
	return out
}

// endOne deletes a claim, as the end of its instance does.
func (l *lagging) endOne(ctx context.Context) {
	var list karpv1.NodeClaimList
	if err := l.WithWatch.List(ctx, &list); err != nil {
		l.t.Error(err)
	}
	for i := range list.Items {
		claim := &list.Items[i]
		claim.Finalizers = nil
		if client.IgnoreNotFound(l.Update(ctx, claim)) == nil {
			_ = client.IgnoreNotFound(l.Delete(ctx, claim))
			return
		}
	}
}

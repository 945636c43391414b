package karpenter_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
)

// The NodePools: the first stays Karpenter's for a while, the second is handed over.
const (
	stays = "stays"
	moves = "moves"
)

// onPool places pods on the nodes of a NodePool, with the named scheduler.
func onPool(pool, scheduler string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.SchedulerName = scheduler
		if pool != "" {
			s.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: pool}
		}
	}
}

// Karpenter's controller runs beside slipway, and the NodePools move one after the other, back, and over again. No node is launched twice,
// none that exists is launched again, and neither disrupts what is the other's.
func TestHandover(t *testing.T) {
	c := start(t, both)
	ctx, cancel := context.WithCancel(t.Context())
	c.watchWrites(ctx)
	t.Cleanup(cancel) // Before the watch's own clean-up.
	c.pools(stays, moves)
	c.awaitReady(stays)
	c.awaitReady(moves)
	c.create(c.workload("stays-old", 24, onPool(stays, stockProfile)))
	old := c.create(c.workload("moves-old", 24, onPool(moves, stockProfile)))
	c.awaitPods(map[string]int{"stays-old": 24, "moves-old": 24})
	before := c.names(moves)
	if len(before) == 0 || len(c.names(stays)) == 0 {
		t.Fatalf("Karpenter has launched %v and %v", before, c.names(stays))
	}
	c.handOver(moves, true)
	c.awaitOwner(moves, finalizer.Slipway)
	t.Run("each launches its own", func(t *testing.T) { c.launchBoth(t) })
	t.Run("each disrupts its own", func(t *testing.T) { c.disruptBoth(t, old, before) })
	t.Run("back", func(t *testing.T) {
		kept := c.names(moves)
		c.handOver(moves, false)
		c.awaitOwner(moves, karpv1.TerminationFinalizer)
		c.same(t, kept, moves)
	})
	all := append(c.names(moves), c.names(stays)...)
	c.handOver(moves, true)
	c.handOver(stays, true)
	c.awaitOwner(moves, finalizer.Slipway)
	c.awaitOwner(stays, finalizer.Slipway)
	c.stops[karpenter]()
	c.awaitOwner(moves, karpv1.TerminationFinalizer)
	c.awaitOwner(stays, karpv1.TerminationFinalizer)
	c.same(t, all, moves, stays)
	c.create(c.workload("after", 10, onPool(stays, corev1.DefaultSchedulerName)))
	c.awaitPods(map[string]int{"after": 10})
	c.once(t)
	c.end(t)
}

// launchBoth has pods of both schedulers wait for nodes.
func (c *cluster) launchBoth(t *testing.T) {
	t.Helper()
	theirs := c.names(stays)
	c.create(c.workload("moves-new", 60, onPool(moves, corev1.DefaultSchedulerName)))
	c.create(c.workload("any", 10, onPool("", corev1.DefaultSchedulerName))) // Every NodePool would do: Karpenter launches nothing for them.
	c.awaitPods(map[string]int{"moves-new": 60, "any": 10})
	c.same(t, theirs, stays)
	c.create(c.workload("stays-new", 60, onPool(stays, stockProfile)))
	c.awaitPods(map[string]int{"stays-new": 60})
	for _, claim := range c.claims() {
		ours := claim.Object.Labels[karpv1.NodePoolLabelKey] == moves
		if finalizer.Taken(claim.Object) != ours || finalizer.Karpenters(claim.Object) == ours {
			t.Errorf("NodeClaim %s of NodePool %s has the finalizers %v", claim.Object.Name, claim.Object.Labels[karpv1.NodePoolLabelKey], claim.Object.Finalizers)
		}
		if _, recorded := claim.Object.Annotations[catalog.InstanceTypesAnnotation]; recorded && !ours {
			t.Errorf("slipway has launched NodeClaim %s of NodePool %s", claim.Object.Name, stays)
		}
	}
	c.once(t)
}

// disruptBoth leaves nodes of both NodePools with few pods. Karpenter gives its own back; slipway leaves nodes alone for their first ten minutes,
// unless they are empty, and so do those that Karpenter would consolidate stay.
func (c *cluster) disruptBoth(t *testing.T, old *appsv1.Deployment, before []string) {
	t.Helper()
	c.scale(old, 2)
	d := &appsv1.Deployment{}
	for _, name := range []string{"stays-new", "stays-old"} {
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, d); err != nil {
			t.Fatal(err)
		}
		c.scale(d, 2)
	}
	had := len(c.names(stays))
	c.await("Karpenter to consolidate its NodePool", func() bool { return len(c.names(stays)) < had })
	time.Sleep(25 * time.Second) // Karpenter looks every 10 s, after 30 s without a change.
	first := c.writes()
	time.Sleep(20 * time.Second)
	for name, written := range c.writes() {
		if n := written - first[name]; n > 3 {
			t.Errorf("the status of %s was written %d times in 20 s: slipway and Karpenter both write it", name, n)
		}
	}
	for _, name := range c.mentioned(before) {
		t.Errorf("Karpenter has disrupted NodeClaim %s, which is slipway's", name)
	}
	c.once(t)
}

// writes counts the changes of the NodePool that was handed over, and of the EC2NodeClass that both use, since the watch began.
func (c *cluster) writes() map[string]int {
	c.t.Helper()
	c.changes.Lock()
	defer c.changes.Unlock()
	return maps.Clone(c.changes.of)
}

// watchWrites counts until ctx ends.
func (c *cluster) watchWrites(ctx context.Context) {
	c.t.Helper()
	informers, err := cache.New(c.RESTConfig(), cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, o := range []client.Object{&karpv1.NodePool{}, &awsv1.EC2NodeClass{}} {
		informer, err := informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, after any) {
			c.changes.Lock()
			defer c.changes.Unlock()
			if o, ok := after.(client.Object); ok && o.GetName() != stays {
				c.changes.of[o.GetName()]++
			}
		}}); err != nil {
			c.t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- informers.Start(ctx) }()
	c.t.Cleanup(func() {
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})
}

// mentioned are the NodeClaims that Karpenter's log says it disrupts.
func (c *cluster) mentioned(names []string) []string {
	var out []string
	for line := range strings.Lines(c.Tail(karpenter, 100_000)) {
		if !strings.Contains(line, "disrupting node(s)") {
			continue
		}
		for _, name := range names {
			if strings.Contains(line, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// handOver labels a NodePool, or removes the label.
func (c *cluster) handOver(pool string, over bool) {
	c.t.Helper()
	p := &karpv1.NodePool{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Name: pool}, p); err != nil {
		c.t.Fatal(err)
	}
	patch := client.MergeFrom(p.DeepCopy())
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	delete(p.Labels, "slipway.dev/handover")
	if over {
		p.Labels["slipway.dev/handover"] = "true"
	}
	if err := c.client.Patch(c.t.Context(), p, patch); err != nil {
		c.t.Fatal(err)
	}
}

// awaitOwner waits until all NodeClaims of a NodePool and their Nodes have one finalizer.
func (c *cluster) awaitOwner(pool, owner string) {
	c.t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	owned := func(list []string) bool {
		return slices.Contains(list, owner) && len(slices.DeleteFunc(slices.Clone(list), func(f string) bool { return !finalizer.Is(f) })) == 1
	}
	err := c.recorder.Await(ctx, pool+" to be of "+owner, func() bool {
		for _, claim := range c.of(pool) {
			if !claim.Terminating.Seen() && !owned(claim.Object.Finalizers) {
				return false
			}
		}
		for _, node := range c.recorder.Nodes() {
			if node.Object.Labels[karpv1.NodePoolLabelKey] == pool && !node.Deleted.Seen() && node.Object.DeletionTimestamp == nil && !owned(node.Object.Finalizers) {
				return false
			}
		}
		return true
	})
	if err != nil {
		for _, claim := range c.of(pool) {
			c.t.Logf("NodeClaim %s: %v", claim.Object.Name, claim.Object.Finalizers)
		}
		c.t.Fatalf("%v\n%s\n%s", err, c.Tail("launcher", 30), c.Tail(karpenter, 10))
	}
	c.t.Logf("NodePool %s was of %s after %.1f s", pool, owner, time.Since(begun).Seconds())
}

// awaitPods waits until so many pods of each Deployment run.
func (c *cluster) awaitPods(want map[string]int) {
	c.t.Helper()
	begun := time.Now()
	c.await("pods to run", func() bool {
		for app, n := range want {
			if c.runningOf(app) != n {
				return false
			}
		}
		return true
	})
	c.t.Logf("%v ran after %.0f s", want, time.Since(begun).Seconds())
}

// of are the NodeClaims of a NodePool that exist.
func (c *cluster) of(pool string) []observe.Claim {
	return slices.DeleteFunc(c.claims(), func(claim observe.Claim) bool { return claim.Object.Labels[karpv1.NodePoolLabelKey] != pool })
}

// names are those of NodeClaims of a NodePool that exist and stay.
func (c *cluster) names(pool string) []string {
	var out []string
	for _, claim := range c.of(pool) {
		if !claim.Terminating.Seen() {
			out = append(out, claim.Object.Name)
		}
	}
	slices.Sort(out)
	return out
}

// same fails unless NodePools have these NodeClaims and no others.
func (c *cluster) same(t *testing.T, want []string, pools ...string) {
	t.Helper()
	var got []string
	for _, pool := range pools {
		got = append(got, c.names(pool)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("NodeClaims of %v: got %v, want %v", pools, got, want)
	}
}

// once fails unless every instance that was ever launched for a NodePool is that of one NodeClaim.
func (c *cluster) once(t *testing.T) {
	t.Helper()
	claims := map[string]string{}
	for _, claim := range c.recorder.Claims() {
		id := claim.Object.Status.ProviderID
		id = id[strings.LastIndex(id, "/")+1:]
		if other, ok := claims[id]; ok && id != "" {
			t.Errorf("NodeClaims %s and %s have instance %s", other, claim.Object.Name, id)
		}
		claims[id] = claim.Object.Name
	}
	for _, i := range c.AWS().Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] != "" && claims[i.ID] == "" {
			t.Errorf("instance %s is no NodeClaim's: %v; NodeClaims have %v", i.ID, i.Tags, slices.Sorted(maps.Keys(claims)))
		}
	}
}

// end deletes everything, and fails if something is left.
func (c *cluster) end(t *testing.T) {
	t.Helper()
	if err := c.client.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	if err := c.client.DeleteAllOf(t.Context(), &karpv1.NodePool{}); err != nil {
		t.Fatal(err)
	}
	c.await("all NodeClaims to be gone", func() bool { return len(c.claims()) == 0 })
	if left := c.instances(); len(left) > 0 {
		t.Errorf("%d instances are left: %+v", len(left), left)
	}
	for _, claim := range c.recorder.Claims() {
		if claim.Unguarded.Seen() {
			t.Errorf("NodeClaim %s had an instance and no finalizer", claim.Object.Name)
		}
	}
}

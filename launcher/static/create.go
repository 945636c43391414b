package static

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// creations are those of a NodePool's NodeClaims. nil has none.
type creations struct {
	// booting are the NodeClaims whose nodes are not initialized, by name.
	booting map[string]bool
	// unseen are the names of those that the cache has not shown yet, also of those that the API server may have created without an answer, and of
	// those of the process that led before.
	unseen []string
	// lost is true where NodeClaims ended without an initialized node since the last creation, or where that failed. The next one then waits.
	lost bool
	// until is when it waits no longer, and wait is the time between the last creation and then.
	until time.Time
	wait  time.Duration
}

// look compares the NodeClaims that were created with those that are there.
func (c *creations) look(nodes []Node) {
	if c == nil {
		return
	}
	there := make(map[string]Node, len(nodes))
	for _, n := range nodes {
		there[n.Claim.Name] = n
	}
	c.unseen = slices.DeleteFunc(c.unseen, func(name string) bool { _, ok := there[name]; return ok })
	for name := range c.booting {
		switch n, ok := there[name]; {
		case !ok && slices.Contains(c.unseen, name):
		case !ok || n.Deleting:
			c.lost = true
			delete(c.booting, name)
		case n.initialized():
			delete(c.booting, name)
		}
	}
}

// hidden reports whether the cache does not show yet what was created.
func (c *creations) hidden() bool { return c != nil && len(c.unseen) > 0 }

// ended forgets a NodeClaim whose termination the Keeper started: it is not lost.
func (c *creations) ended(claim *karpv1.NodeClaim) {
	if c != nil {
		delete(c.booting, claim.Name)
	}
}

// waits reports whether it is too early to create more.
func (c *creations) waits(now time.Time) bool { return c != nil && c.lost && now.Before(c.until) }

// begin records that NodeClaims are created now. The wait after a loss doubles.
func (c *creations) begin(now time.Time) {
	if c.lost {
		c.wait = min(2*c.wait, lastWait)
	}
	c.wait = max(c.wait, firstWait)
	c.until, c.lost = now.Add(c.wait), false
}

// passing returns how many NodeClaims the gate of the NodePool lets one pass create.
func passing(g health.Gate, f Facts) int64 {
	switch {
	case g.Held:
		return 0
	case !g.OneAtATime:
		return most
	case slices.ContainsFunc(f.Nodes, func(n Node) bool { return !n.Deleting && !n.registered() }):
		return 0 // The one that is tried is on its way.
	}
	return 1
}

// settled reports whether all nodes have joined.
func settled(f Facts) bool {
	return !slices.ContainsFunc(f.Nodes, func(n Node) bool { return !n.Deleting && !n.initialized() })
}

// create creates NodeClaims, unless some of those that were created before are lost and it is too early to try again, or the cache does not show
// them all, nor those of another process that led until a moment ago: they would be created again. nodes are what n was counted from.
func (k *Keeper) create(ctx context.Context, pool *karpv1.NodePool, nodes []Node, n int64, now time.Time) error {
	c := k.created[pool.UID]
	if n <= 0 || !conditions.PoolReady(pool) || c.waits(now) {
		return nil
	}
	if c == nil {
		c = &creations{booting: map[string]bool{}}
		k.created[pool.UID] = c
	}
	if err := k.compare(ctx, pool, nodes, c); err != nil {
		return err
	}
	if c.hidden() {
		return k.awaitCache(ctx, c) // The next pass counts them.
	}
	class := &awsv1.EC2NodeClass{}
	if err := k.config.Client.Get(ctx, client.ObjectKey{Name: pool.Spec.Template.Spec.NodeClassRef.Name}, class); err != nil {
		return fmt.Errorf("getting EC2NodeClass %s: %w", pool.Spec.Template.Spec.NodeClassRef.Name, err)
	}
	c.begin(now)
	var failed error
	for range n {
		claim := record.NewStaticNodeClaim(pool.Name+"-"+rand.String(5), pool, class)
		k.config.Own(claim)
		failed = k.config.Client.Create(ctx, claim)
		if failed == nil || leadership.Unanswered(failed) {
			c.unseen = append(c.unseen, claim.Name)
			c.booting[claim.Name] = true
		}
		if failed != nil {
			failed = fmt.Errorf("creating NodeClaim %s: %w", claim.Name, failed)
			c.lost = true
			break
		}
		klog.FromContext(ctx).Info("created nodeclaim", "nodeClaim", klog.KObj(claim), "nodePool", pool.Name, "replicas", *pool.Spec.Replicas)
	}
	return errors.Join(failed, k.awaitCache(ctx, c))
}

// compare notes, once in a leadership, the NodeClaims of a NodePool that the API server has besides the cache's: the process that led before may
// have created them.
func (k *Keeper) compare(ctx context.Context, pool *karpv1.NodePool, nodes []Node, c *creations) error {
	if k.compared[pool.UID] {
		return nil
	}
	live := &karpv1.NodeClaimList{}
	if err := k.config.Reader.List(ctx, live, client.MatchingLabels{karpv1.NodePoolLabelKey: pool.Name}); err != nil {
		return fmt.Errorf("listing NodeClaims: %w", err)
	}
	for i := range live.Items {
		name := live.Items[i].Name
		if !slices.ContainsFunc(nodes, func(n Node) bool { return n.Claim.Name == name }) {
			c.unseen = append(c.unseen, name)
		}
	}
	k.compared[pool.UID] = true
	return nil
}

// awaitCache waits until the cache has shown the created NodeClaims, without those that are gone again or were not created.
func (k *Keeper) awaitCache(ctx context.Context, c *creations) error {
	deadline := time.Now().Add(cacheWait)
	for ; c.hidden(); c.unseen = c.unseen[1:] {
		key := client.ObjectKey{Name: c.unseen[0]}
		for k.config.Client.Get(ctx, key, &karpv1.NodeClaim{}) != nil {
			if ctx.Err() == nil && time.Now().Before(deadline) {
				time.Sleep(cachePoll)
				continue
			}
			if err := k.config.Reader.Get(ctx, key, &karpv1.NodeClaim{}); apierrors.IsNotFound(err) {
				break
			}
			return fmt.Errorf("waiting until the cache shows NodeClaim %s: not within %s", key.Name, cacheWait)
		}
	}
	return nil
}

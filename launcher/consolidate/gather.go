package consolidate

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
)

// fleet holds the nodes of all NodePools at one moment.
type fleet struct {
	nodes  []*member
	byName map[string]*member
	// candidates is the number of nodes that may be removed.
	candidates int
	// empty and underutilized are how many nodes of each NodePool the budgets allow to be disrupted.
	empty, underutilized map[string]int
	// pools are the NodePools by name.
	pools map[string]*karpv1.NodePool
	// sum is a hash of all that a decision depends on, except prices.
	sum uint64
}

// member is a node of the fleet. Its objects belong to the cache and are read only.
type member struct {
	claim *karpv1.NodeClaim
	node  *corev1.Node
	pool  *karpv1.NodePool
	pods  []*corev1.Pod
	// timed are those whose do-not-disrupt is a duration.
	timed []*corev1.Pod
	// blocked is why the node stays, and its place in a decision: Soon is false also where pods come and go without an end.
	blocked disruption.ConsolidationBlock
	// waits is true where the node waits for its turn to be looked at.
	waits bool
}

// movable returns how many pods move if the node goes.
func (n *member) movable() int {
	out := 0
	for _, p := range n.pods {
		if disruption.Occupies(p) {
			out++
		}
	}
	return out
}

// movable returns how many pods of each NodePool's nodes may move.
func (f *fleet) movable() map[string]int {
	out := make(map[string]int, len(f.pools))
	for pool := range f.pools {
		out[pool] = 0
	}
	for _, n := range f.nodes {
		out[n.pool.Name] += n.movable()
	}
	return out
}

// eligible returns how many nodes would be given up if the budgets allowed it and it paid, by the reason in metrics, as Karpenter counts them: those without
// pods that would move, and of NodePools that give up others those with pods.
func (f *fleet) eligible(needed func(*karpv1.NodeClaim) string) map[string]int {
	out := map[string]int{empty: 0, why: 0}
	for _, n := range f.nodes {
		switch {
		case n.blocked.Why != "":
		case disruption.Occupant(n.pods) == nil:
			if needed(n.claim) == "" {
				out[empty]++
			}
		case n.pool.Spec.Disruption.ConsolidationPolicy != karpv1.ConsolidationPolicyWhenEmpty:
			out[why]++
		}
	}
	return out
}

// waitsForTurn is why a node stays that the decision is not asked about.
const waitsForTurn = "a decision about all nodes ran out of time: nodes are looked at in turns, and it was not the turn of this one"

// takeTurns blocks the nodes whose turn it is not, after decisions that ran out of time. Empty nodes take no time. It returns how many nodes with pods have
// their turn, and how many wait.
func (f *fleet) takeTurns(turn calm.Turn, looks calm.Looks) (asked, waiting int) {
	var open []types.UID
	of := map[types.UID]*member{}
	for _, n := range f.nodes {
		if n.blocked.Why == "" && n.movable() > 0 {
			open, of[n.claim.UID] = append(open, n.claim.UID), n
		}
		n.blocked.Soon = n.blocked.Soon && turn == 0
	}
	wait := turn.Wait(looks, open)
	for _, uid := range wait {
		of[uid].blocked, of[uid].waits = disruption.ConsolidationBlock{Why: waitsForTurn, Passing: true}, true
	}
	return len(open) - len(wait), len(wait)
}

// gather reads the fleet and the budgets.
func (c *Consolidator) gather(ctx context.Context) (*fleet, error) {
	pools := &karpv1.NodePoolList{}
	claims, nodes, errFleet := c.config.Cache.Fleet(ctx)
	guards, errGuards := c.budgets.All(ctx, c.config.Client)
	if err := errors.Join(errFleet, errGuards, c.config.Client.List(ctx, pools, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, fmt.Errorf("reading the fleet: %w", err)
	}
	f := &fleet{byName: map[string]*member{}}
	allowed, err := c.config.Ledger.Allowed(ctx, karpv1.DisruptionReasonEmpty, reason)
	if err != nil {
		return nil, err
	}
	f.empty, f.underutilized = allowed[karpv1.DisruptionReasonEmpty], allowed[reason]
	f.pools = make(map[string]*karpv1.NodePool, len(pools.Items))
	for i := range pools.Items {
		f.pools[pools.Items[i].Name] = &pools.Items[i]
	}
	nodeOf := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		nodeOf[node.Name] = node
	}
	c.pods.Look()
	now := time.Now()
	for _, claim := range claims {
		n := &member{claim: claim, node: nodeOf[claim.Status.NodeName], pool: f.pools[claim.Labels[karpv1.NodePoolLabelKey]]}
		if n.node == nil || n.pool == nil || !conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) || !c.config.Ours(claim) {
			continue
		}
		sum, err := c.examine(ctx, n, guards, now)
		if err != nil {
			return nil, err
		}
		f.sum += sum
		f.nodes = append(f.nodes, n)
		f.byName[n.node.Name] = n
		if n.blocked.Why == "" {
			f.candidates++
		}
	}
	slices.SortFunc(f.nodes, func(a, b *member) int { return strings.Compare(a.node.Name, b.node.Name) })
	f.sum += maphash.String(c.seed, fmt.Sprint(f.empty, f.underutilized))
	return f, nil
}

// examine sets whether the node may be removed. It returns a hash of all that a decision about the node depends on.
func (c *Consolidator) examine(ctx context.Context, n *member, guards disruption.PodBudgets, now time.Time) (uint64, error) {
	pods, err := c.pods.On(ctx, c.config.Cache.Pods, n.node.Name, c.summed)
	if err != nil {
		return 0, err
	}
	facts := disruption.ConsolidationFacts{
		Candidate: disruption.Candidate{
			Now: now, Claim: n.claim, Node: n.node, Pool: n.pool, Pods: pods.on, DisruptBare: c.config.Settings.DisruptBare,
		},
		Moving: c.config.Mover.Moving(n.claim.UID), Rest: c.config.Mover.NotBefore(n.claim.UID),
		NodeAge: c.config.Settings.NodeAge, Budgets: guards,
	}
	n.blocked = disruption.BlocksConsolidation(facts)
	n.blocked.Soon = c.unrest.Soon(n.claim.UID, n.blocked.Soon, n.pool.Spec.Disruption.ConsolidateAfter.Duration, now)
	n.pods, n.timed = pods.on, pods.timed
	return maphash.Comparable(c.seed, struct {
		node       string
		pool       int64
		open, soon bool
		pods       uint64
	}{n.node.Name, n.pool.Generation, n.blocked.Why == "", n.blocked.Soon, pods.sum}), nil
}

// podsOnNode are the pods on a node, a hash of which they are, in any order, and those whose do-not-disrupt is a duration.
type podsOnNode struct {
	on    []*corev1.Pod
	sum   uint64
	timed []*corev1.Pod
}

func (c *Consolidator) summed(pods []*corev1.Pod) podsOnNode {
	out := podsOnNode{on: pods}
	for _, pod := range pods {
		out.sum += maphash.String(c.seed, string(pod.UID))
		if !disruption.ProtectionOf(pod, time.Time{}).Until.IsZero() {
			out.timed = append(out.timed, pod)
		}
	}
	return out
}

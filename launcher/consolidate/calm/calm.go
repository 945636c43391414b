// Package calm keeps what consolidation remembers between its decisions: when each node was last looked at, how many pods were evicted lately,
// which makes the next eviction cost more, and which Events were recorded lately. It is pure but for what Memory is given to read.
package calm

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// Looks are when nodes were last looked at, by their NodeClaims: decided about, or found to be kept by something. A node that was neither yet counts
// from when it was first seen.
type Looks map[types.UID]time.Time

// At returns those of the nodes that there are, of which those that are true were looked at now, and the age of the oldest one.
func (l Looks) At(now time.Time, nodes map[types.UID]bool) (after Looks, oldest time.Duration) {
	after = make(Looks, len(nodes))
	for uid, looked := range nodes {
		last, ok := l[uid]
		if !ok || looked {
			last = now
		}
		after[uid] = last
		oldest = max(oldest, now.Sub(last))
	}
	return after, oldest
}

// Evictions are those of consolidation, by NodePool.
type Evictions map[string]disruption.Evictions

// EvictionsOf returns the evictions of consolidations among decisions, in any order. Those of a move of several NodePools count for the first.
func EvictionsOf(decisions []view.Decision) Evictions {
	out := Evictions{}
	for _, d := range slices.SortedFunc(slices.Values(decisions), func(a, b view.Decision) int { return a.At.Compare(b.At) }) {
		if d.What == view.Consolidated {
			out.Count(d.NodePool, d.Evictions, d.At)
		}
	}
	return out
}

// Count adds n evictions from a NodePool's nodes.
func (e Evictions) Count(pool string, n int, now time.Time) { e[pool] = e[pool].With(n, now) }

// Costs returns what the eviction of an ordinary pod costs now in USD, by NodePool, for the numbers of their pods and the cost after a calm time.
// Other NodePools are forgotten.
func (e Evictions) Costs(pods map[string]int, cost float64, now time.Time) map[string]float64 {
	maps.DeleteFunc(e, func(pool string, _ disruption.Evictions) bool { _, ok := pods[pool]; return !ok })
	out := make(map[string]float64, len(pods))
	for pool, n := range pods {
		out[pool] = cost * e[pool].Strain(n, now)
	}
	return out
}

// Unrest is since when pods come to nodes or leave them, by their NodeClaims.
type Unrest map[types.UID]time.Time

// soonGrace is for how much longer than twice consolidateAfter a node counts as one that will be quiet soon: its pods take a while to end.
const soonGrace = time.Minute

// Soon notes whether pods come to a node or leave it, and reports whether that may be expected to end: not on a node where it goes on and on.
func (u Unrest) Soon(node types.UID, restless bool, after *time.Duration, now time.Time) bool {
	if !restless || after == nil {
		delete(u, node)
		return false
	}
	since, ok := u[node]
	if !ok {
		since, u[node] = now, now
	}
	return now.Sub(since) <= 2*(*after)+soonGrace
}

// Keep forgets other nodes.
func (u Unrest) Keep(nodes map[types.UID]bool) {
	maps.DeleteFunc(u, func(node types.UID, _ time.Time) bool { _, ok := nodes[node]; return !ok })
}

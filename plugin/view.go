package plugin

import (
	"maps"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

const (
	// confirmWithin is how long a recorded claim may take to show in the catalog.
	confirmWithin = 30 * time.Second
	// settleWithin is how long an initialized node may take to show in the scheduler's cache without its taint.
	settleWithin = 10 * time.Second
	// freeFailures are the failed launches in a row after which a NodePool has to wait: fewer may be a coincidence.
	freeFailures = 3
	// backoffMax bounds that wait.
	backoffMax = 5 * time.Minute
)

// view is what the planner knows of the launcher's side: the catalog, and what happened since it was told.
type view struct {
	// synced says that the current connection has had its full state.
	synced bool
	// distrusted is when a request went unanswered: streams that were opened before it may not tell what the launcher made of it.
	distrusted time.Time
	told       catalog.State
	// sent are claims that the launcher has recorded and the catalog does not show yet.
	sent map[string]sentClaim
	// settling are initialized nodes that the scheduler's cache does not show as such yet.
	settling map[string]settlingNode
	// ready are nodes that are Ready and not initialized, by NodeClaim, with pods that the scheduler has not been let try.
	ready map[string]readyNode
	pools map[string]poolHistory
	// offerings are those of launches that failed for want of capacity.
	offerings failedOfferings
	// settled is when the scheduler's cache began to show initialized nodes, for a while.
	settled map[string]time.Time
}

type sentClaim struct {
	node     catalog.InFlightNode
	capacity corev1.ResourceList
	at       time.Time
}

type settlingNode struct {
	node  catalog.InFlightNode
	until time.Time
}

// poolHistory counts a NodePool's failed launches since the last that worked, but for those that lacked capacity: they count
// against their offerings.
type poolHistory struct {
	failures int
	last     string
	until    time.Time
}

func newView() *view {
	return &view{
		sent: map[string]sentClaim{}, settling: map[string]settlingNode{}, ready: map[string]readyNode{}, pools: map[string]poolHistory{},
		offerings: newFailedOfferings(), settled: map[string]time.Time{},
	}
}

// young says whether the node has come so lately that waiting pods may not have been tried on it.
func (v *view) young(nodeName string, now time.Time) bool {
	at, ok := v.settled[nodeName]
	return ok && now.Sub(at) < settleWithin
}

// forget drops what is known of nodes that are not young any more.
func (v *view) forget(now time.Time) {
	for name := range v.settled {
		if !v.young(name, now) {
			delete(v.settled, name)
		}
	}
	v.offerings.forget(now)
	v.offerings.keep(func(name string) bool {
		_, sent := v.sent[name]
		_, shown := v.told.InFlight[name]
		return sent || shown
	})
}

// failed notes a failed launch for which the pool, its class or its nodes are at fault.
func (v *view) failed(pool, why string, now time.Time) {
	h := v.pools[pool]
	h.failures++
	h.last = why
	if n := h.failures - freeFailures; n > 0 {
		wait := time.Duration(math.Min(float64(backoffMax), float64(time.Second)*math.Pow(2, float64(n-1))))
		h.until = now.Add(wait)
	}
	v.pools[pool] = h
}

// worked notes that a node of the pool was initialized.
func (v *view) worked(pool string) { delete(v.pools, pool) }

// backoffEnds is the first moment when a pool, or an offering, that has to wait may be tried again; zero if none waits.
func (v *view) backoffEnds(now time.Time) time.Time {
	first := v.offerings.holdEnds(now)
	for _, h := range v.pools {
		if h.until.After(now) && (first.IsZero() || h.until.Before(first)) {
			first = h.until
		}
	}
	return first
}

// record keeps a claim that the launcher has recorded until the catalog shows it.
func (v *view) record(c plan.Claim, now time.Time) {
	v.offerings.planned(c)
	if _, shown := v.told.InFlight[c.Name]; shown {
		return
	}
	n := catalog.InFlightNode{
		NodeClaim: c.Name, NodePool: c.NodePool, Phase: catalog.PhaseRecorded, Labels: c.Labels, Taints: c.Taints,
		Allocatable: c.Allocatable, Replaces: strings.Join(c.Replaces, ","),
		InstanceType: c.Expected.InstanceType, Zone: c.Expected.Zone, CapacityType: c.Expected.CapacityType,
	}
	for _, m := range c.Members {
		n.Pods = append(n.Pods, m.Pods...)
	}
	v.sent[c.Name] = sentClaim{node: n, capacity: v.capacity(c), at: now}
}

// capacity of the claim's expected instance type, which counts against the pool's limits.
func (v *view) capacity(c plan.Claim) corev1.ResourceList {
	for _, t := range v.told.InstanceTypes[v.told.NodePools[c.NodePool].NodeClass] {
		if t.Name == c.Expected.InstanceType {
			return t.Capacity
		}
	}
	return c.Allocatable
}

// unconfirmed forgets the claims that never showed in the catalog, and returns their names.
func (v *view) unconfirmed(now time.Time) []string {
	var out []string
	for name, s := range v.sent {
		if v.synced && now.Sub(s.at) > confirmWithin {
			out = append(out, name)
			delete(v.sent, name)
		}
	}
	return out
}

// state is the catalog for a plan made now: with what was sent and not shown yet, with initialized nodes that the
// scheduler does not see as such yet, with every promise on its node, and without the pools and offerings that have to wait.
func (v *view) state(promises map[string][]promise.Promise, now time.Time) catalog.State {
	out := catalog.State{
		Generation: v.told.Generation, InstanceTypes: v.offerings.mark(v.told.InstanceTypes, now),
		NodePools: maps.Clone(v.told.NodePools), InFlight: maps.Clone(v.told.InFlight),
	}
	if out.InFlight == nil {
		out.InFlight = map[string]catalog.InFlightNode{}
	}
	for name, s := range v.settling {
		out.InFlight[name] = s.node
	}
	for name, s := range v.sent {
		out.InFlight[name] = s.node
		if pool, ok := out.NodePools[s.node.NodePool]; ok {
			pool.Usage = plus(pool.Usage, s.capacity)
			out.NodePools[pool.Name] = pool
		}
	}
	for name, list := range promises {
		n, ok := out.InFlight[name]
		if !ok {
			continue
		}
		known := make(map[string]bool, len(n.Pods))
		for _, ref := range n.Pods {
			known[ref.UID] = true
		}
		n.Pods = append([]catalog.PodRef(nil), n.Pods...)
		for _, p := range list {
			if !known[p.Pod.UID] {
				n.Pods = append(n.Pods, p.Pod)
			}
		}
		out.InFlight[name] = n
	}
	for name, h := range v.pools {
		if pool, ok := out.NodePools[name]; ok && h.until.After(now) {
			pool.Ready, pool.NotReadyMessage = false, explain.BackingOff(h.failures, h.last, h.until)
			out.NodePools[name] = pool
		}
	}
	return out
}

func plus(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, q := range b {
		sum := out[name]
		sum.Add(q)
		out[name] = sum
	}
	nodes := out["nodes"]
	nodes.Add(*resource.NewQuantity(1, resource.DecimalSI))
	out["nodes"] = nodes
	return out
}

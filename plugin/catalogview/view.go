package catalogview

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

const (
	// confirmWithin is how long it may take until a recorded claim is in the catalog.
	confirmWithin = 30 * time.Second
	// settleWithin is how long it may take until the scheduler's cache shows that a node is initialized. A busy API server has shown changes twenty seconds
	// late.
	settleWithin = 30 * time.Second
	// youngFor is for how long pods may not have been tried on a node that has come into the scheduler's cache.
	youngFor = 10 * time.Second
)

// View is the launcher's catalog for the planner: as it was last received, with what has happened since. It is for one goroutine.
type View struct {
	// synced means that the current connection has received its full state.
	synced bool
	// distrusted is when a request got no answer. Streams that were opened before may not show the request's effects.
	distrusted time.Time
	received   catalog.State
	// sent are claims that the launcher has recorded and the catalog does not have yet.
	sent map[string]sentClaim
	// settling are initialized nodes that the scheduler's cache does not have as such yet, by NodeClaim.
	settling map[string]settlingNode
	// ready are nodes that are Ready and not initialized, with promised pods that the scheduler may not try yet, by NodeClaim.
	ready map[string]readyNode
	// pools are the NodePools whose launches fail.
	pools poolBackoff
	// offerings are those of launches that failed for lack of capacity.
	offerings failedOfferings
	// settled is when initialized nodes came into the scheduler's cache that did so lately, by name.
	settled map[string]time.Time
	// starting are the NodePools that came into the catalog lately and have not been ready since.
	starting startingPools
}

type sentClaim struct {
	node     catalog.InFlightNode
	capacity corev1.ResourceList
	// at is when it was recorded, connected from when on a connection could have shown it.
	at, connected time.Time
}

type settlingNode struct {
	node  catalog.InFlightNode
	until time.Time
}

// readyNode is a node that is Ready and not initialized.
type readyNode struct {
	name string
	// started means that the launcher has reported that its startup taint is gone, and which pods it bound before.
	started bool
	// since is when the scheduler's cache was first seen to have it as a node that takes pods.
	since time.Time
}

// Node is one of the launcher's nodes.
type Node struct {
	// NodeClaim is the name of its NodeClaim, Name the name of the Node.
	NodeClaim, Name string
}

// New returns the view of a catalog that has not been received.
func New() *View {
	return &View{
		sent: map[string]sentClaim{}, settling: map[string]settlingNode{}, ready: map[string]readyNode{}, pools: newPoolBackoff(),
		offerings: newFailedOfferings(), settled: map[string]time.Time{}, starting: startingPools{},
	}
}

// Synced reports whether the catalog has been received since the last request that got no answer.
func (v *View) Synced() bool { return v.synced }

// InFlight returns the nodes in flight as the launcher last reported them. The caller must not change the map.
func (v *View) InFlight() map[string]catalog.InFlightNode { return v.received.InFlight }

// Receive replaces the catalog, and returns the previous one.
func (v *View) Receive(state catalog.State, now time.Time) (before catalog.State) {
	before, v.received = v.received, state
	v.pools.received(before, state)
	v.starting.received(before, state, v.synced, now)
	return before
}

// Resync records that the received catalog is the full state of a stream that was opened at the time.
func (v *View) Resync(opened time.Time) {
	// A state that was under way when a request got no answer does not show the request's effects.
	v.synced = v.synced || !opened.Before(v.distrusted)
	for name, s := range v.sent {
		if _, shown := v.received.InFlight[name]; shown || s.at.Before(opened) {
			delete(v.sent, name)
		}
	}
	clear(v.ready)
}

// Distrust records that a request got no answer. The view is not synced until a stream that is opened from now on has received
// its full state.
func (v *View) Distrust(now time.Time) { v.synced, v.distrusted = false, now }

// Knows reports whether the NodeClaim is in flight, or its node is initialized and not yet in the scheduler's cache.
func (v *View) Knows(nodeClaim string) bool {
	_, shown := v.received.InFlight[nodeClaim]
	_, settling := v.settling[nodeClaim]
	return shown || settling
}

// Sent returns a node that the launcher has recorded and the catalog does not have yet.
func (v *View) Sent(nodeClaim string) (catalog.InFlightNode, bool) {
	s, ok := v.sent[nodeClaim]
	return s.node, ok
}

// Shown records a new or changed node in flight.
func (v *View) Shown(n catalog.InFlightNode) {
	delete(v.sent, n.NodeClaim)
	if n.Phase < catalog.PhaseReady || n.NodeName == "" {
		delete(v.ready, n.NodeClaim)
		return
	}
	r := v.ready[n.NodeClaim]
	r.name, r.started = n.NodeName, n.Started
	v.ready[n.NodeClaim] = r
}

// Launched records that EC2 has launched the node.
func (v *View) Launched(n catalog.InFlightNode) {
	v.offerings.launched(n, v.received.NodePools[n.NodePool].TypesKey())
}

// Ended records that a node is no longer in flight. failure is the reason for which its launch failed; empty if it did not.
func (v *View) Ended(n catalog.InFlightNode, failure string, now time.Time) {
	delete(v.sent, n.NodeClaim)
	delete(v.ready, n.NodeClaim)
	v.offerings.ended(n, ec2error.OfferingsFailed(failure) && !ec2error.HeldByLauncher(failure), v.alone(n, failure), now)
}

// alone returns the key of the list of instance types that a failure is about alone; empty if it is about the offerings of all. Subnets are those of an
// EC2NodeClass. So is its placement group, which may have no place for instances that EC2 has.
func (v *View) alone(n catalog.InFlightNode, failure string) string {
	grouped := slices.ContainsFunc(v.received.TypesOf(n.NodePool), func(t catalog.InstanceType) bool { return t.Labels[catalog.LabelPlacementGroupID] != "" })
	if failure == ec2error.ReasonInsufficientAddresses || failure == ec2error.ReasonInsufficientCapacity && grouped {
		return v.received.NodePools[n.NodePool].TypesKey()
	}
	return ""
}

// Initialized records that the node has joined. Settled returns it once the scheduler's cache has it as an initialized node.
func (v *View) Initialized(n catalog.InFlightNode, now time.Time) {
	v.pools.succeeded(n.NodePool)
	v.settling[n.NodeClaim] = settlingNode{node: n, until: now.Add(settleWithin)}
}

// Settling returns how many initialized nodes the scheduler's cache does not have as such yet.
func (v *View) Settling() int { return len(v.settling) }

// Settled returns the initialized nodes that came into the scheduler's cache since the last call, and those that did not within
// settleWithin. sees reports whether the cache shows that the node is initialized.
func (v *View) Settled(now time.Time, sees func(nodeName string) bool) []Node {
	var out []Node
	for name, s := range v.settling {
		if !sees(s.node.NodeName) && now.Before(s.until) {
			continue
		}
		delete(v.settling, name)
		v.settled[s.node.NodeName] = now
		out = append(out, Node{NodeClaim: name, Name: s.node.NodeName})
	}
	return out
}

// Ready returns how many nodes are Ready and not initialized, with promised pods that the scheduler may not try yet.
func (v *View) Ready() int { return len(v.ready) }

// unheard is how long a node takes pods, by the scheduler's cache, of which the launcher has not reported that: it may be busy binding them, or of a
// release that reports it when the node is initialized.
const unheard = 5 * time.Second

// TakingPods returns those of them that take pods, by the scheduler's cache and by the launcher, for at least the given time.
func (v *View) TakingPods(now time.Time, since time.Duration, sees func(nodeName string) bool) []Node {
	var out []Node
	for claim, r := range v.ready {
		if !sees(r.name) {
			continue
		}
		if r.since.IsZero() {
			r.since = now
			v.ready[claim] = r
		}
		if age := now.Sub(r.since); age >= since && r.started || age >= unheard {
			out = append(out, Node{NodeClaim: claim, Name: r.name})
		}
	}
	return out
}

// Tried records that the scheduler may try all pods of a Ready node.
func (v *View) Tried(nodeClaim string) { delete(v.ready, nodeClaim) }

// OnProbation returns how many offerings are on probation.
func (v *View) OnProbation(now time.Time) int { return v.offerings.onProbation(now) }

// Young reports whether the node has joined so recently that waiting pods may not have been tried on it.
func (v *View) Young(nodeName string, now time.Time) bool {
	at, ok := v.settled[nodeName]
	return ok && now.Sub(at) < youngFor
}

// Forget drops what is out of date: nodes that are not young any more, and failures that do not count any more.
func (v *View) Forget(now time.Time) {
	for name := range v.settled {
		if !v.Young(name, now) {
			delete(v.settled, name)
		}
	}
	v.offerings.forget(now)
	inFlight := func(name string) bool {
		_, sent := v.sent[name]
		_, shown := v.received.InFlight[name]
		return sent || shown
	}
	v.offerings.keep(inFlight)
	v.pools.keep(inFlight)
}

// Failed counts a failed launch against the pool: the pool, its class or its nodes are at fault. The claims of one request count once. A reason that
// says nothing about the pool does not count; text is the reason for people.
func (v *View) Failed(nodeClaim, pool, reason, text string, now time.Time) {
	switch reason {
	case api.ReasonLimitsExceeded:
		v.pools.limited(pool, text, now)
	case api.ReasonGangIncomplete, api.ReasonPodsBound, api.ReasonInstanceTerminated:
	default:
		v.pools.failed(nodeClaim, pool, text, now)
	}
}

// Starting returns until when it is too early to say why the pods have no node, as a NodePool that may run them has just been created and is not
// ready yet; zero if it is not.
func (v *View) Starting(u plan.Unplaced, now time.Time) time.Time {
	return v.starting.until(u.Reasons, now)
}

// BackoffEnds returns the first moment when a NodePool or an offering that has to wait may be tried again. Zero if none waits.
func (v *View) BackoffEnds(now time.Time) time.Time {
	first, pools := v.offerings.holdEnds(now), v.pools.ends(now)
	if first.IsZero() || !pools.IsZero() && pools.Before(first) {
		return pools
	}
	return first
}

// Record adds a claim that the launcher has recorded, until the catalog has it.
func (v *View) Record(c plan.Claim, now time.Time) {
	v.offerings.planned(c)
	v.pools.recorded(c.Name, c.NodePool, now)
	if _, shown := v.received.InFlight[c.Name]; shown {
		return
	}
	v.sent[c.Name] = sentClaim{node: recordedNode(v.received, c), capacity: recordedCapacity(v.received, c), at: now, connected: now}
}

// Unconfirmed drops the claims that did not come into the catalog within confirmWithin while the launcher was connected, and returns their names.
func (v *View) Unconfirmed(now time.Time, connected bool) []string {
	var out []string
	for name, s := range v.sent {
		switch {
		case !connected:
			s.connected = now
			v.sent[name] = s
		case v.synced && now.Sub(s.connected) > confirmWithin:
			out = append(out, name)
			delete(v.sent, name)
		}
	}
	return out
}

// State returns the catalog for a plan made now: with recorded claims that it does not have yet, with initialized nodes that the
// scheduler's cache does not have yet, with every promise on its node, and without NodePools and offerings that have to wait. It has no
// nodes of standby buffers that sleep.
func (v *View) State(promises map[string][]promise.Promise, now time.Time) catalog.State {
	return v.StateFor(promises, now, func(n catalog.InFlightNode, _ catalog.State) bool { return !n.Sleeps() })
}

// StateFor is the catalog with those nodes in flight that sees selects.
func (v *View) StateFor(promises map[string][]promise.Promise, now time.Time, sees func(catalog.InFlightNode, catalog.State) bool) catalog.State {
	out := catalog.State{
		Generation: v.received.Generation, InstanceTypes: v.offerings.mark(v.received.InstanceTypes, now),
		NodePools: maps.Clone(v.received.NodePools), InFlight: maps.Clone(v.received.InFlight), Commitments: v.received.Commitments,
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
	maps.DeleteFunc(out.InFlight, func(_ string, n catalog.InFlightNode) bool { return !sees(n, out) })
	v.pools.mark(out.NodePools, now)
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

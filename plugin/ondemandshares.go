package plugin

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/ondemand"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// onDemandShares keep the scheduler's own choices of nodes to the minimum on-demand shares. It is safe for concurrent use.
type onDemandShares struct {
	objects  *objects
	promises *promise.Table
	// assumedOn returns the node of a pod that is being bound.
	assumedOn func(*corev1.Pod) string
	// pools are the shares of the NodePools.
	pools atomic.Pointer[ondemand.Shares]
}

func newOnDemandShares(o *objects, promises *promise.Table, assumedOn func(*corev1.Pod) string) *onDemandShares {
	return &onDemandShares{objects: o, promises: promises, assumedOn: assumedOn}
}

// set replaces the shares of the NodePools, and reports whether one of them is lower than before: nodes that exist may take pods that they did not.
func (s *onDemandShares) set(pools ondemand.Shares) (lower bool) {
	before := s.current()
	s.pools.Store(&pools)
	for name, share := range before {
		lower = lower || pools[name] < share
	}
	return lower
}

// current returns the shares of the NodePools.
func (s *onDemandShares) current() ondemand.Shares {
	if pools := s.pools.Load(); pools != nil {
		return *pools
	}
	return nil
}

// refusal returns why the pod may not be on the node; empty if it may. A pod that is promised the node was counted when that was planned.
func (s *onDemandShares) refusal(state fwk.CycleState, pod *corev1.Pod, node *corev1.Node) string {
	shares := s.current()
	if !shares.Governs(pod) || !ondemand.Interruptible(node.Labels) {
		return ""
	}
	if p, promised := s.promises.Get(pod.UID); promised && p.NodeName == node.Name {
		return ""
	}
	return shares.Refusal(pod, s.tally(state, pod), node.Labels)
}

// tallyKey is where a scheduling cycle keeps the tally of its pod's workload.
const tallyKey fwk.StateKey = NodeReserveName + "/on-demand"

// cycleTally is a tally that the first node of a scheduling cycle makes.
type cycleTally struct {
	once  sync.Once
	tally ondemand.Tally
}

// Clone implements fwk.StateData: what preemption would change does not count.
func (c *cycleTally) Clone() fwk.StateData { return c }

// tally counts the other pods of the workload, once in a scheduling cycle.
func (s *onDemandShares) tally(state fwk.CycleState, pod *corev1.Pod) ondemand.Tally {
	if state == nil {
		return s.count(pod)
	}
	data, err := state.Read(tallyKey)
	if err != nil {
		// Nodes are filtered at the same time: some count twice, and the last one's tally is kept.
		data = &cycleTally{}
		state.Write(tallyKey, data)
	}
	c, ok := data.(*cycleTally)
	if !ok {
		return s.count(pod)
	}
	c.once.Do(func() { c.tally = s.count(pod) })
	return c.tally
}

// count counts the other pods of the workload that are bound, are being bound or are promised a node.
func (s *onDemandShares) count(pod *corev1.Pod) ondemand.Tally {
	out := ondemand.Tally{}
	for _, other := range s.objects.owners.PodsOf(intake.ControllerOf(pod)) {
		if other.UID == pod.UID || !ondemand.Counts(other) {
			continue
		}
		if labels, placed := s.placed(other); placed {
			out.Add(labels)
		}
	}
	return out
}

// placed returns the labels of the pod's node; false if it has none.
func (s *onDemandShares) placed(pod *corev1.Pod) (map[string]string, bool) {
	name := pod.Spec.NodeName
	if name == "" {
		name = s.assumedOn(pod)
	}
	p, promised := s.promises.Get(pod.UID)
	if name == "" && promised {
		name = p.NodeName
	}
	if node := s.objects.node(name); node != nil {
		return node.Labels, true
	}
	return p.Labels, promised
}

package spread

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/incremental/ledger"
)

// class is what is remembered for pods for which the same pods and nodes count.
type class struct {
	needs
	namespace string
	// selects are the nodes that the pods select.
	selects nodeaffinity.RequiredNodeAffinity
	// counts are the pods of each constraint, nil before the first time, and at the state of the cluster that they are of.
	counts []*counts
	at     ledger.Mark
}

func newClass(pod *corev1.Pod, of needs) *class {
	return &class{needs: of, namespace: pod.Namespace, selects: nodeaffinity.GetRequiredNodeAffinity(pod)}
}

// update brings the counts up to date.
func (c *class) update(l *ledger.Ledger, nodes []fwk.NodeInfo) {
	changes, ok := l.Since(c.at)
	if !ok || c.counts == nil {
		c.recount(nodes)
		c.at = l.Now()
		return
	}
	for _, change := range changes {
		times := 1
		if change.Left {
			times = -1
		}
		switch node := change.Node; {
		case !c.considers(node):
		case change.Pod == nil:
			c.countNode(node, times)
		default:
			c.count(change.Pod, node, times)
		}
	}
	c.at = l.Now()
}

// recount counts all pods of all nodes.
func (c *class) recount(nodes []fwk.NodeInfo) {
	c.counts = make([]*counts, len(c.constraints))
	for i := range c.counts {
		c.counts[i] = &counts{of: map[string]int{}, with: map[int]int{}, nodes: map[string]int{}}
	}
	for _, info := range nodes {
		node := info.Node()
		if !c.considers(node) {
			continue
		}
		c.countNode(node, 1)
		for _, pod := range info.GetPods() {
			c.count(pod, node, 1)
		}
	}
}

// countNode counts a node so many times more: a topology without pods is the least one, and one without nodes is none.
func (c *class) countNode(node *corev1.Node, times int) {
	for i := range c.constraints {
		if of := &c.constraints[i]; c.includes(of, node) {
			c.counts[i].addNodes(node.Labels[of.key], times)
		}
	}
}

// count counts a pod on a node so many times more.
func (c *class) count(info fwk.PodInfo, node *corev1.Node, times int) {
	for i := range c.constraints {
		if of := &c.constraints[i]; c.counted(info, of) && c.includes(of, node) {
			c.counts[i].add(node.Labels[of.key], times)
		}
	}
}

// counted reports whether the constraint counts a pod: not one that terminates, and none where its selector is empty.
func (c *class) counted(info fwk.PodInfo, of *constraint) bool {
	pod := info.GetPod()
	return pod.Namespace == c.namespace && pod.DeletionTimestamp == nil && !of.selector.Empty() && of.selector.Matches(labels.Set(pod.Labels))
}

// considers reports whether the pods of a node count for any constraint.
func (c *class) considers(node *corev1.Node) bool { return c.partly || c.complete(node) }

// complete reports whether the node has all of the topologies.
func (c *class) complete(node *corev1.Node) bool {
	for i := range c.constraints {
		if _, ok := node.Labels[c.constraints[i].key]; !ok {
			return false
		}
	}
	return true
}

// includes reports whether the pods of a node are counted for the constraint, by the nodes that the pod selects.
func (c *class) includes(of *constraint, node *corev1.Node) bool {
	if of.later || !of.affinity {
		return !of.later
	}
	matches, _ := c.selects.Match(node) // As in PodTopologySpread, a term that cannot be read matches nothing.
	return matches
}

// counts are the pods of each topology.
type counts struct {
	of map[string]int
	// with is how many topologies have so many pods, and least the fewest that one has.
	with  map[int]int
	least int
	// nodes are those of each topology. A cycle changes none of them.
	nodes map[string]int
}

// addNodes counts so many more nodes of a topology. Those that leave have no pods any more.
func (c *counts) addNodes(topology string, nodes int) {
	if c.nodes[topology] += nodes; c.nodes[topology] > 0 {
		c.add(topology, 0)
		return
	}
	delete(c.nodes, topology)
	pods, known := c.of[topology]
	if !known {
		return
	}
	delete(c.of, topology)
	if c.with[pods]--; c.with[pods] == 0 {
		delete(c.with, pods)
	}
	if len(c.of) == 0 {
		c.least = 0
	}
	for len(c.of) > 0 && c.with[c.least] == 0 {
		c.least++
	}
}

// add counts so many more pods of a topology.
func (c *counts) add(topology string, pods int) {
	before, known := c.of[topology]
	now := before + pods
	if known && pods == 0 {
		return
	}
	c.of[topology] = now
	c.with[now]++
	if known {
		if c.with[before]--; c.with[before] == 0 {
			delete(c.with, before)
		}
	}
	if len(c.of) == 1 || now < c.least {
		c.least = now
	}
	for c.with[c.least] == 0 { // It ends at the topology that has now.
		c.least++
	}
}

// leastOf returns the fewest pods of a topology; zero while there are fewer topologies than that.
func (c *counts) leastOf(topologies int) int {
	if len(c.of) < topologies {
		return 0
	}
	return c.least
}

func clone(all []*counts) []*counts {
	out := make([]*counts, len(all))
	for i, c := range all {
		out[i] = &counts{of: maps.Clone(c.of), with: maps.Clone(c.with), least: c.least, nodes: c.nodes}
	}
	return out
}

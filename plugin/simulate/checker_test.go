package simulate_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// checker holds an answer against the input, knowing nothing of the planner and of the filters: Kubernetes' rules are
// written out here once more, for the state after every pod is where the answer puts it.
type checker struct {
	t     *testing.T
	r     run
	out   simulate.Result
	state catalog.State
	// nodes of the input and of the answer, by name, and the pods on each.
	nodes map[string]*corev1.Node
	pods  map[string][]*corev1.Pod
	// placed are the pods of the answer with their nodes.
	placed map[*corev1.Pod]string
}

func check(t *testing.T, r run) {
	t.Helper()
	c := &checker{
		t: t, r: r, out: r.outcome.Result(t.Context()), nodes: map[string]*corev1.Node{}, pods: map[string][]*corev1.Pod{},
		placed: map[*corev1.Pod]string{},
	}
	c.state, _ = r.market.Catalog(t.Context(), r.objects)
	for _, n := range r.objects.Nodes {
		c.nodes[n.Name] = n
	}
	for name, n := range c.state.InFlight {
		c.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: n.Labels}, Spec: corev1.NodeSpec{Taints: n.Taints}}
		c.nodes[name].Status.Allocatable = n.Allocatable
	}
	for _, n := range c.out.Nodes {
		c.launch(n)
	}
	c.everyPodOnce()
	c.prices()
	c.limits()
	for name, node := range c.nodes {
		c.node(name, node)
	}
	c.guards()
	for pod, name := range c.placed {
		c.pod(pod, c.nodes[name])
		c.spread(pod, c.nodes[name])
		c.company(pod, name)
	}
}

func (c *checker) errorf(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("check: "+format, args...)
}

// launch makes the Node that the answer asks for.
func (c *checker) launch(n simulate.Node) {
	pool, ok := c.state.NodePools[n.NodePool]
	i := slices.IndexFunc(c.state.TypesOf(n.NodePool), func(t catalog.InstanceType) bool { return t.Name == n.InstanceType })
	if !ok || i < 0 || !pool.Ready || c.nodes[n.Name] != nil || n.Alternatives < 1 {
		c.errorf("node %s: NodePool %s has no type %s, is not ready, or the name is taken", n.Name, n.NodePool, n.InstanceType)
		return
	}
	it := c.state.TypesOf(n.NodePool)[i]
	if !slices.ContainsFunc(it.Offerings, func(o catalog.Offering) bool {
		return o.Zone == n.Zone && o.CapacityType == n.CapacityType && (math.Abs(o.Price+o.LossPerPod*float64(len(n.Pods))-n.Price) < 1e-6 || n.CoveredBy != "" && n.Price < o.Price)
	}) {
		c.errorf("node %s: %s is not offered %s in %s for %v", n.Name, n.InstanceType, n.CapacityType, n.Zone, n.Price)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: maps.Clone(it.Labels)}, Spec: corev1.NodeSpec{Taints: pool.Taints}}
	node.Status.Allocatable, node.Status.Capacity = it.Allocatable, it.Capacity
	maps.Copy(node.Labels, pool.Labels)
	maps.Copy(node.Labels, map[string]string{
		corev1.LabelTopologyZone: n.Zone, "karpenter.sh/capacity-type": n.CapacityType, corev1.LabelHostname: n.Name, "topology.ebs.csi.aws.com/zone": n.Zone,
	})
	c.requirements(node, pool)
	c.nodes[n.Name] = node
}

// requirements holds the node against those of its NodePool, and adds the labels that they define.
func (c *checker) requirements(node *corev1.Node, pool catalog.NodePool) {
	for _, r := range pool.Requirements {
		value, has := node.Labels[r.Key]
		if !has && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			node.Labels[r.Key] = r.Values[0]
			continue
		}
		in := slices.Contains(r.Values, value)
		if r.Operator == corev1.NodeSelectorOpIn && (!has || !in) || r.Operator == corev1.NodeSelectorOpNotIn && has && in {
			c.errorf("node %s: %s=%s, NodePool %s requires %s %v", node.Name, r.Key, value, pool.Name, r.Operator, r.Values)
		}
	}
}

// everyPodOnce sees that each pod of the input is in one place.
func (c *checker) everyPodOnce() {
	byName := c.pending()
	where := map[string]string{}
	put := func(name, place string) {
		if where[name] != "" {
			c.errorf("pod %s is both %s and %s", name, where[name], place)
		}
		where[name] = place
		if pod := byName[name]; pod != nil && c.nodes[place] != nil {
			c.pods[place] = append(c.pods[place], pod)
			c.placed[pod] = place
		}
	}
	for place, pods := range c.places() {
		if c.nodes[place] == nil || len(pods) == 0 {
			c.errorf("node %s is not there, or takes no pod", place)
		}
		for _, p := range pods {
			put(p, place)
		}
	}
	for _, u := range c.out.Unschedulable {
		if len(u.Reasons) == 0 || u.Reasons[0].Reason == "" {
			c.errorf("pod %s is unschedulable without a reason", u.Pod)
		}
		put(u.Pod, "unschedulable")
	}
	for name := range byName {
		if where[name] == "" {
			c.errorf("pod %s is lost", name)
		}
	}
}

// pending are the pods that have to be in the answer; the others are put on their nodes.
func (c *checker) pending() map[string]*corev1.Pod {
	out := map[string]*corev1.Pod{}
	for _, p := range c.r.objects.Pods {
		switch at := c.promised(p.Pod); {
		case p.Spec.NodeName != "":
			c.pods[p.Spec.NodeName] = append(c.pods[p.Spec.NodeName], p.Pod)
		case at != "":
			c.pods[at] = append(c.pods[at], p.Pod)
		default:
			out[p.Namespace+"/"+p.Name] = p.Pod
		}
	}
	return out
}

// places are the nodes of the answer with the names of their pods.
func (c *checker) places() map[string][]string {
	out := map[string][]string{}
	for _, n := range c.out.Nodes {
		out[n.Name] = n.Pods
	}
	for _, e := range c.out.Existing {
		out[e.Name] = e.Pods
	}
	return out
}

// promised is the NodeClaim that the pod waits for.
func (c *checker) promised(pod *corev1.Pod) string {
	for name, n := range c.state.InFlight {
		if slices.ContainsFunc(n.Pods, func(ref catalog.PodRef) bool { return ref.UID == string(pod.UID) }) {
			return name
		}
	}
	return ""
}

func (c *checker) prices() {
	sum := 0.0
	for _, n := range c.out.Nodes {
		sum += n.Price
	}
	if math.Abs(sum-c.out.CostPerHour) > 1e-6 || c.out.LowerBoundPerHour > c.out.CostPerHour+1e-9 {
		c.errorf("the nodes cost %v, costPerHour is %v, lowerBoundPerHour %v", sum, c.out.CostPerHour, c.out.LowerBoundPerHour)
	}
}

func (c *checker) limits() {
	for _, pool := range c.state.NodePools {
		used := pool.Usage.DeepCopy()
		if used == nil {
			used = corev1.ResourceList{}
		}
		for _, n := range c.out.Nodes {
			if n.NodePool != pool.Name || c.nodes[n.Name] == nil {
				continue
			}
			for name, q := range c.nodes[n.Name].Status.Capacity {
				sum := used[name]
				sum.Add(q)
				used[name] = sum
			}
			count := used["nodes"]
			count.Add(resource.MustParse("1"))
			used["nodes"] = count
		}
		for name, limit := range pool.Limits {
			if got := used[name]; got.Cmp(limit) > 0 && slices.ContainsFunc(c.out.Nodes, func(n simulate.Node) bool { return n.NodePool == pool.Name }) {
				c.errorf("NodePool %s: %s of %s, limit %s", pool.Name, got.String(), name, limit.String())
			}
		}
	}
}

// node holds the sum of its pods and daemon pods against what the node has, and their host ports against each other.
func (c *checker) node(name string, node *corev1.Node) {
	if !slices.ContainsFunc(c.pods[name], func(p *corev1.Pod) bool { return c.placed[p] == name }) {
		return // What was there before is nobody's plan.
	}
	sum, ports := map[corev1.ResourceName]int64{}, map[string]int{}
	for _, p := range append(c.daemons(name, node), c.pods[name]...) {
		for r, q := range podresource.PodRequests(p, podresource.PodResourcesOptions{}) {
			sum[r] += q.MilliValue()
		}
		sum[corev1.ResourcePods] += 1000
		for _, container := range p.Spec.Containers {
			for _, port := range container.Ports {
				if port.HostPort > 0 {
					ports[fmt.Sprint(port.Protocol, port.HostPort)]++
				}
			}
		}
	}
	for r, n := range sum {
		if have := node.Status.Allocatable[r]; n > have.MilliValue() {
			c.errorf("node %s (%s): %d/1000 of %s asked for, %s allocatable", name, node.Labels[corev1.LabelInstanceTypeStable], n, r, have.String())
		}
	}
	for port, n := range ports {
		if n > 1 {
			c.errorf("node %s: %d pods have host port %s", name, n, port)
		}
	}
}

// daemons are the daemon pods that will come to a new node.
func (c *checker) daemons(name string, node *corev1.Node) []*corev1.Pod {
	var out []*corev1.Pod
	for _, ds := range c.r.objects.DaemonSets {
		if p := daemonPod(ds); c.isNew(name) && c.runs(p, node) {
			out = append(out, p)
		}
	}
	return out
}

func (c *checker) isNew(name string) bool {
	return slices.ContainsFunc(c.out.Nodes, func(n simulate.Node) bool { return n.Name == name })
}

func daemonPod(ds *appsv1.DaemonSet) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Labels: ds.Spec.Template.Labels}, Spec: ds.Spec.Template.Spec}
}

// runs says whether node selector, node affinity and taints let the pod be on the node.
func (c *checker) runs(p *corev1.Pod, node *corev1.Node) bool {
	match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(node)
	taint := c.untolerated(p, node)
	return err == nil && match && taint == ""
}

func (c *checker) untolerated(p *corev1.Pod, node *corev1.Node) string {
	taint, found := scheduling.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, p.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, true)
	if !found {
		return ""
	}
	return taint.ToString()
}

// pod holds what it requires of its node.
func (c *checker) pod(p *corev1.Pod, node *corev1.Node) {
	if !c.runs(p, node) {
		c.errorf("pod %s/%s: its selectors or tolerations keep it off node %s (taint %q)", p.Namespace, p.Name, node.Name, c.untolerated(p, node))
	}
	if node.Spec.Unschedulable {
		c.errorf("pod %s/%s is on node %s, which is cordoned", p.Namespace, p.Name, node.Name)
	}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			c.volume(p, v.PersistentVolumeClaim.ClaimName, node)
		}
	}
}

func (c *checker) volume(p *corev1.Pod, claim string, node *corev1.Node) {
	for _, pvc := range c.r.objects.PersistentVolumeClaims {
		if pvc.Namespace != p.Namespace || pvc.Name != claim {
			continue
		}
		for _, pv := range c.r.objects.PersistentVolumes {
			if pv.Name != pvc.Spec.VolumeName || pv.Spec.NodeAffinity == nil {
				continue
			}
			s, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
			if err != nil || !s.Match(node) {
				c.errorf("pod %s/%s: volume %s is not reached from node %s", p.Namespace, p.Name, pv.Name, node.Name)
			}
		}
		return
	}
	c.errorf("pod %s/%s: claim %s is not in the input", p.Namespace, p.Name, claim)
}

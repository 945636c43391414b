package plugin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/controller/daemon"
)

const (
	// NodeReserveName is the name of the plugin in KubeSchedulerConfiguration.
	NodeReserveName = "NodeReserve"

	// nodePoolLabel is on every node that was launched for a NodePool.
	nodePoolLabel = "karpenter.sh/nodepool"
	// reserveAfterReady is how long room is kept for daemon pods that do not come.
	reserveAfterReady = 2 * time.Minute
	// needsKeptFor bounds how long the daemon pods that a node should run are remembered.
	needsKeptFor = 10 * time.Second
)

// nodeReserve keeps the room of DaemonSet pods that have not arrived on a young node of ours, against pods of lower or
// equal priority: the plan counted on that room, and whoever comes first would take it.
type nodeReserve struct {
	*Plugin
	handle     fwk.Handle
	daemonSets appslisters.DaemonSetLister
	// epoch rises when a DaemonSet changes.
	epoch atomic.Int64

	mu    sync.Mutex
	needs map[types.UID]daemonNeeds
	// rejected are the pods that were kept off, with the moment when the reservation that did it lapses at last.
	rejected map[types.UID]keptOff
}

type keptOff struct {
	pod    *corev1.Pod
	lapses time.Time
}

// daemonNeeds are the daemon pods that one node should run.
type daemonNeeds struct {
	epoch int64
	until time.Time
	pods  []daemonNeed
}

type daemonNeed struct {
	owner    types.UID
	name     string
	priority int32
	requests corev1.ResourceList
}

var (
	_ fwk.FilterPlugin      = &nodeReserve{}
	_ fwk.EnqueueExtensions = &nodeReserve{}
	_ fwk.SignPlugin        = &nodeReserve{}
)

func newNodeReserve(p *Plugin, h fwk.Handle) *nodeReserve {
	return &nodeReserve{
		Plugin: p, handle: h,
		daemonSets: h.SharedInformerFactory().Apps().V1().DaemonSets().Lister(),
		needs:      map[types.UID]daemonNeeds{}, rejected: map[types.UID]keptOff{},
	}
}

// Name of the plugin.
func (n *nodeReserve) Name() string { return NodeReserveName }

// EventsToRegister wakes pods that were kept off when a daemon pod has arrived, or a node changes.
func (n *nodeReserve) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete},
			QueueingHintFn: daemonPodArrived,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint}},
	}, nil
}

// daemonPodArrived queues the pod when a daemon pod was bound or is gone: only those change what is reserved.
func daemonPodArrived(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	for _, obj := range []any{oldObj, newObj} {
		if pod, ok := obj.(*corev1.Pod); ok && pod != nil && ownedByDaemonSet(pod) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// SignPod adds nothing beyond what NodeResourcesFit signs: the pod's requests and its priority class do not differ
// between pods of one signature in a way that changes the nodes it may use for longer than the reservation stands.
func (n *nodeReserve) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: NodeReserveName, Value: corev1helpers.PodPriority(pod)}}, nil
}

// Filter rejects the node if, with the pod on it, a daemon pod that should come would not fit any more.
func (n *nodeReserve) Filter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) (status *fwk.Status) {
	defer n.recovered(pointFilter, &status)
	n.injected(pointFilter, pod)
	node := info.Node()
	if node == nil || node.Labels[nodePoolLabel] == "" || ownedByDaemonSet(pod) {
		return nil
	}
	lapses, young := reservedUntil(node, time.Now())
	if !young {
		return nil
	}
	waiting := n.missing(klog.FromContext(ctx), node, info)
	if len(waiting) == 0 {
		return nil
	}
	if what, ok := roomBeside(pod, info, waiting); !ok {
		n.mu.Lock()
		n.rejected[pod.UID] = keptOff{pod: pod, lapses: lapses}
		n.mu.Unlock()
		return fwk.NewStatus(fwk.Unschedulable, "room is kept for DaemonSet pods that have not arrived: "+what)
	}
	return nil
}

// reservedUntil says until when room is kept on the node: until some time after it became Ready, or after its creation
// if it never does.
func reservedUntil(node *corev1.Node, now time.Time) (time.Time, bool) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			until := c.LastTransitionTime.Add(reserveAfterReady)
			return until, now.Before(until)
		}
	}
	until := node.CreationTimestamp.Add(20 * time.Minute)
	return until, now.Before(until)
}

// missing lists the daemon pods that the node should run and does not.
func (n *nodeReserve) missing(logger klog.Logger, node *corev1.Node, info fwk.NodeInfo) []daemonNeed {
	needs := n.needsOf(logger, node)
	if len(needs) == 0 {
		return nil
	}
	var out []daemonNeed
	arrived := map[types.UID]bool{}
	for _, p := range info.GetPods() {
		if owner := metav1.GetControllerOf(p.GetPod()); owner != nil {
			arrived[owner.UID] = true
		}
	}
	for _, d := range needs {
		if !arrived[d.owner] {
			out = append(out, d)
		}
	}
	return out
}

func (n *nodeReserve) needsOf(logger klog.Logger, node *corev1.Node) []daemonNeed {
	epoch, now := n.epoch.Load(), time.Now()
	n.mu.Lock()
	have, ok := n.needs[node.UID]
	n.mu.Unlock()
	if ok && have.epoch == epoch && now.Before(have.until) {
		return have.pods
	}
	all, err := n.daemonSets.List(labels.Everything())
	if err != nil {
		logger.Error(err, "DaemonSets cannot be listed, no room is kept for them", "node", klog.KObj(node))
		return nil
	}
	steady := steadyState(node)
	fresh := daemonNeeds{epoch: epoch, until: now.Add(needsKeptFor)}
	for _, ds := range all {
		if run, _ := daemon.NodeShouldRunDaemonPod(logger, steady, ds); !run {
			continue
		}
		pod := daemon.NewPod(ds, node.Name)
		fresh.pods = append(fresh.pods, daemonNeed{
			owner: ds.UID, name: ds.Namespace + "/" + ds.Name, priority: corev1helpers.PodPriority(pod),
			requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
		})
	}
	n.mu.Lock()
	n.needs[node.UID] = fresh
	n.mu.Unlock()
	return fresh.pods
}

// steadyState is the node without the taints that go before it takes pods.
func steadyState(node *corev1.Node) *corev1.Node {
	out := *node
	out.Spec.Taints = nil
	for _, t := range node.Spec.Taints {
		if !startupTaint(t.Key) {
			out.Spec.Taints = append(out.Spec.Taints, t)
		}
	}
	return &out
}

// roomBeside says whether the pod fits beside what is on the node and the daemon pods of its priority or a higher one;
// if not, which resource is short and by whose need.
func roomBeside(pod *corev1.Pod, info fwk.NodeInfo, waiting []daemonNeed) (string, bool) {
	priority := corev1helpers.PodPriority(pod)
	kept, count, first := corev1.ResourceList{}, 0, ""
	for _, d := range waiting {
		if d.priority < priority {
			continue
		}
		count++
		if first == "" {
			first = d.name
		}
		for name, q := range d.requests {
			sum := kept[name]
			sum.Add(q)
			kept[name] = sum
		}
	}
	if count == 0 {
		return "", true
	}
	wanted := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	have, used := info.GetAllocatable(), info.GetRequested()
	if len(info.GetPods())+count+1 > have.GetAllowedPodNumber() {
		return fmt.Sprintf("pods, for %s", first), false
	}
	for name, reserved := range kept {
		q := wanted[name]
		if q.IsZero() {
			continue
		}
		need := amount(name, q) + amount(name, reserved)
		if need > available(name, have)-available(name, used) {
			return fmt.Sprintf("%s of %s, for %s", reserved.String(), name, first), false
		}
	}
	return "", true
}

// lapsed returns the rejected pods whose reservation is over; they shall be activated.
func (n *nodeReserve) lapsed(now time.Time) []*corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*corev1.Pod
	for uid, k := range n.rejected {
		if !now.Before(k.lapses) {
			out = append(out, k.pod)
			delete(n.rejected, uid)
		}
	}
	for uid, d := range n.needs {
		if now.After(d.until.Add(needsKeptFor)) {
			delete(n.needs, uid)
		}
	}
	return out
}

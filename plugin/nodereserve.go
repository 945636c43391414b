package plugin

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/controller/daemon"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

const (
	// reserveAfterReady is how long room is kept for daemon pods that do not come.
	reserveAfterReady = 2 * time.Minute
	// promisedAgain is when a pod is tried again that was kept off room which is promised to others.
	promisedAgain = 5 * time.Second
	// needsKeptFor bounds how long the daemon pods that a node should run are remembered.
	needsKeptFor = 10 * time.Second
)

// nodeReserve keeps three kinds of room against pods of lower or equal priority, since the first to come would take it: that of
// DaemonSet pods that have not arrived on a young node of ours, on which the plan counted, that of pods which are promised such a
// node, and that which was planned for the pods of a node that terminates, until their replacements have come. It keeps the room of
// reserved capacity buffers against all pods but those that may take it.
type nodeReserve struct {
	guard    *guard
	objects  *objects
	promises *promise.Table
	reserved *reservations.Table
	shares   *onDemandShares

	mu    sync.Mutex
	needs map[types.UID]daemonNeeds
	// rejected are the pods that were kept off, with the moment until which the first of the reservations that did it may last.
	rejected map[types.UID]keptOff
	// waiting are the pods that were kept off room for replacements, or of capacity buffers.
	waiting map[types.UID]waitingPod
}

// daemonNeeds are the daemon pods that one node should run.
type daemonNeeds struct {
	epoch int64
	until time.Time
	pods  []reservations.Need
}

var (
	_ fwk.PreFilterPlugin   = &nodeReserve{}
	_ fwk.FilterPlugin      = &nodeReserve{}
	_ fwk.PreScorePlugin    = &nodeReserve{}
	_ fwk.ScorePlugin       = &nodeReserve{}
	_ fwk.EnqueueExtensions = &nodeReserve{}
	_ fwk.SignPlugin        = &nodeReserve{}
)

func newNodeReserve(g *guard, o observed, promises *promise.Table) *nodeReserve {
	return &nodeReserve{
		guard: g, objects: o.objects, promises: promises, reserved: o.reserved, shares: o.shares,
		needs: map[types.UID]daemonNeeds{}, rejected: map[types.UID]keptOff{}, waiting: map[types.UID]waitingPod{},
	}
}

// Name of the plugin.
func (n *nodeReserve) Name() string { return NodeReserveName }

// EventsToRegister wakes pods that were kept off when a daemon pod has arrived, or a node changes.
func (n *nodeReserve) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete},
			QueueingHintFn: n.podChanged,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint}},
	}, nil
}

// podChanged queues the pod when a daemon pod was bound or is gone: these change what is reserved. It queues one that was kept off reserved room when any pod
// has left a node: there may be room beside.
func (n *nodeReserve) podChanged(_ klog.Logger, waits *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	if left, ok := oldObj.(*corev1.Pod); ok && newObj == nil && left != nil && left.Spec.NodeName != "" && n.waits(waits.UID) {
		return fwk.Queue, nil
	}
	for _, obj := range []any{oldObj, newObj} {
		if pod, ok := obj.(*corev1.Pod); ok && pod != nil && ownedByDaemonSet(pod) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// SignPod adds the priority to what NodeResourcesFit signs, and the owner where room is kept for the pods of any.
func (n *nodeReserve) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if n.shares.current().Governs(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "a minimum on-demand share counts each pod of its workload")
	}
	out := []fwk.SignFragment{{Key: NodeReserveName, Value: corev1helpers.PodPriority(pod)}}
	board := n.reserved.Board()
	if board.Stands() {
		out = append(out, fwk.SignFragment{Key: NodeReserveName + "/buffers", Value: board.Signature(pod)})
	}
	if board.Empty() {
		return out, nil
	}
	if owner := intake.ControllerOf(pod); !owner.None() {
		out = append(out, fwk.SignFragment{Key: NodeReserveName + "/owner", Value: owner.String()})
	}
	return out, nil
}

// PreFilter skips all nodes for a pod against which nothing is reserved on any: filtering costs a tenth of a cycle, and most of the time no node is new and none goes.
func (n *nodeReserve) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (result *fwk.PreFilterResult, status *fwk.Status) {
	defer n.guard.recovered(pointPreFilter, &status)
	now, board := time.Now(), n.reserved.Board()
	if ownedByDaemonSet(pod) ||
		!n.shares.current().Governs(pod) && board.Empty() && !board.Stands() && n.promises.Quiet(now) && !n.objects.young.any(now) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreFilterExtensions returns nil: pods that come or go change nothing of what is reserved.
func (n *nodeReserve) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects the node if, with the pod on it, a daemon pod that should come would not fit any more.
//
// It rejects spot nodes for pods of which a minimum on-demand share allows no more there.
func (n *nodeReserve) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) (status *fwk.Status) {
	defer n.guard.recovered(pointFilter, &status)
	n.guard.injected(pointFilter, pod)
	node := info.Node()
	if node == nil || ownedByDaemonSet(pod) {
		return nil
	}
	if why := n.shares.refusal(state, pod, node); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	return n.refuse(ctx, pod, info, n.keptOn(ctx, pod, info))
}

// refuse rejects the node if the pod takes some of the room that is kept on it, and notes when the pod is to be tried again.
func (n *nodeReserve) refuse(ctx context.Context, pod *corev1.Pod, info fwk.NodeInfo, kept keptRoom) *fwk.Status {
	node := info.Node()
	waiting := kept.against(pod)
	if len(waiting) == 0 {
		return nil
	}
	what := reservations.Short(pod, info, waiting)
	if what == "" {
		what = reservations.Clash(pod, node, waiting, n.objects.namespaces)
	}
	if what == "" {
		return nil
	}
	klog.FromContext(ctx).V(5).Info("Pod is kept off room on a node", "pod", klog.KObj(pod), "node", klog.KObj(node), "of", what, "reservedFor", waiting[0].Name)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(kept.daemons)+len(kept.promised) > 0 {
		n.reject(pod, kept.lapses)
	}
	if len(kept.replacements)+len(kept.standing) > 0 {
		n.wait(pod, kept.freed)
	}
	return fwk.NewStatus(fwk.Unschedulable, "room is reserved for "+kept.whose(pod)+what)
}

// PreScore skips all pods for whose owner nothing is reserved.
func (n *nodeReserve) PreScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (status *fwk.Status) {
	defer n.guard.recovered(pointPreScore, &status)
	n.guard.injected(pointPreScore, pod)
	if !n.reserved.Board().For(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score prefers the nodes that have room for a replacement pod: by the scores of Kubernetes it would go to the emptiest node, which may be the next one to be removed.
func (n *nodeReserve) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) (score int64, status *fwk.Status) {
	defer n.guard.recovered(pointScore, &status)
	n.guard.injected(pointScore, pod)
	if info.Node() != nil && n.reserved.Board().Takes(pod, info, n.reserved.Left) {
		return fwk.MaxScore, nil
	}
	return fwk.MinScore, nil
}

// ScoreExtensions returns nil: scores need no second look.
func (n *nodeReserve) ScoreExtensions() fwk.ScoreExtensions { return nil }

// keptRoom is what is reserved on a node against a pod.
type keptRoom struct {
	daemons, promised, replacements, standing []reservations.Need
	// lapses is when the room for daemons and promised pods is free at last.
	lapses time.Time
	// freed is that of the board that replacements and standing are from.
	freed int
}

// keptOn returns what is reserved on the node against the pod.
func (n *nodeReserve) keptOn(ctx context.Context, pod *corev1.Pod, info fwk.NodeInfo) (kept keptRoom) {
	node := info.Node()
	if node.Labels[nodePoolLabel] != "" {
		now := time.Now()
		until, young := reservedUntil(node, now)
		if kept.lapses = until; young {
			kept.daemons = n.missing(klog.FromContext(ctx), node, info)
		}
		if kept.promised = n.promised(pod, info, now); len(kept.promised) > 0 {
			kept.lapses = now.Add(promisedAgain)
		}
	}
	board := n.reserved.Board()
	kept.freed = board.Freed()
	if !board.Empty() {
		kept.replacements = board.Needs(pod, info, n.reserved.Left)
	}
	if board.Stands() {
		kept.standing = board.Standing(pod, info)
	}
	return kept
}

// against returns the room that does not give way to the pod.
func (k *keptRoom) against(pod *corev1.Pod) []reservations.Need {
	return reservations.Against(pod, slices.Concat(k.standing, k.daemons, k.promised, k.replacements))
}

// whose says for which pods the room is that does not give way to the pod.
func (k *keptRoom) whose(pod *corev1.Pod) string {
	stays := func(needs []reservations.Need) bool { return len(reservations.Against(pod, slices.Clone(needs))) > 0 }
	switch {
	case stays(k.standing):
		return "pods that a buffer waits for: "
	case stays(k.replacements):
		return "pods of a node that terminates: "
	case stays(k.promised):
		return "pods that are promised it: "
	}
	return "DaemonSet pods that have not arrived: "
}

// promised returns the pods that are promised the node and do not show on it. Pods and Nodes are watched apart: that the node
// takes pods may show before its own are seen to be bound, and before the launcher reports that it has joined. A node takes none
// before its NodeClaim owns it.
func (n *nodeReserve) promised(pod *corev1.Pod, info fwk.NodeInfo, now time.Time) []reservations.Need {
	node := info.Node()
	claim := nodeClaimOf(node)
	if claim == "" {
		return nil
	}
	var out []reservations.Need
	for _, held := range n.promises.Coming(claim, now) {
		other := n.objects.pod(held.Pod)
		if !comes(other, node.Name) || other.UID == pod.UID {
			continue
		}
		if slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().UID == other.UID }) {
			continue
		}
		out = append(out, reservations.NeedOf(other))
	}
	return out
}

// reservedUntil returns until when room is kept on the node: until some time after it became Ready, or after its creation
// if it never does.
func reservedUntil(node *corev1.Node, now time.Time) (time.Time, bool) {
	if conditions.NodeReady(node) {
		until := conditions.Ready(node).LastTransitionTime.Add(reserveAfterReady)
		return until, now.Before(until)
	}
	until := node.CreationTimestamp.Add(20 * time.Minute)
	return until, now.Before(until)
}

// missing returns the daemon pods that the node should run and does not.
func (n *nodeReserve) missing(logger klog.Logger, node *corev1.Node, info fwk.NodeInfo) []reservations.Need {
	needs := n.needsOf(logger, node)
	if len(needs) == 0 {
		return nil
	}
	var out []reservations.Need
	arrived := map[intake.Controller]bool{}
	for _, p := range info.GetPods() {
		arrived[intake.ControllerOf(p.GetPod())] = true
	}
	for _, d := range needs {
		if !arrived[d.Owner] {
			out = append(out, d)
		}
	}
	return out
}

func (n *nodeReserve) needsOf(logger klog.Logger, node *corev1.Node) []reservations.Need {
	epoch, now := n.objects.daemonSets.version(), time.Now()
	n.mu.Lock()
	have, ok := n.needs[node.UID]
	n.mu.Unlock()
	if ok && have.epoch == epoch && now.Before(have.until) {
		return have.pods
	}
	all, err := n.objects.daemonSets.list(logger, now)
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
		need := reservations.NeedOf(daemon.NewPod(ds, node.Name))
		if plan.Oversized(need.Requests, node.Status.Allocatable) {
			continue
		}
		need.Owner, need.Name, need.Daemon = intake.Controller{Namespace: ds.Namespace, UID: ds.UID}, ds.Namespace+"/"+ds.Name, true
		fresh.pods = append(fresh.pods, need)
	}
	n.mu.Lock()
	n.needs[node.UID] = fresh
	n.mu.Unlock()
	return fresh.pods
}

// steadyState returns the node without the taints that go before it takes pods.
func steadyState(node *corev1.Node) *corev1.Node {
	out := *node
	out.Spec.Taints = nil
	for _, t := range node.Spec.Taints {
		if !reservations.StartupTaint(t.Key) {
			out.Spec.Taints = append(out.Spec.Taints, t)
		}
	}
	return &out
}

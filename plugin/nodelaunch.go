package plugin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// nodeLaunchConfig is what NodeLaunch needs. All fields are required.
type nodeLaunchConfig struct {
	guard      *guard
	args       *Args
	handle     fwk.Handle
	collected  *intake.Collector
	promises   *promise.Table
	delays     *delays
	connection *connection
	// sleep holds back the pods of namespaces that sleep.
	sleep *sleepers
	// hooked reports whether the hooks report the ends of scheduling cycles.
	hooked func() bool
	// gathered returns how many pods of a gang have a node or are assumed on one, and the others that exist.
	gathered func(gang string) (placed int, others []*corev1.Pod)
	// nominate reserves the room of a pod on a node until the scheduler places it.
	nominate func(ctx context.Context, pod catalog.PodRef, nodeName string)
	// unseen reports whether pods fail before PostFilter: the hooks are off and the cluster has no node.
	unseen func() bool
}

// nodeLaunch is the scheduler plugin of one profile.
type nodeLaunch struct{ nodeLaunchConfig }

var (
	_ fwk.PreEnqueuePlugin  = &nodeLaunch{}
	_ fwk.PreFilterPlugin   = &nodeLaunch{}
	_ fwk.PostFilterPlugin  = &nodeLaunch{}
	_ fwk.PermitPlugin      = &nodeLaunch{}
	_ fwk.ReservePlugin     = &nodeLaunch{}
	_ fwk.EnqueueExtensions = &nodeLaunch{}
	_ fwk.SignPlugin        = &nodeLaunch{}
)

// Name of the plugin.
func (n *nodeLaunch) Name() string { return NodeLaunchName }

// EventsToRegister returns nothing, on purpose: a pod that waits for its node must not be woken by each node that
// comes. Whatever releases a pod from the promise table activates it.
func (n *nodeLaunch) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// SignPod adds nothing: the answers of the plugin depend on no node.
func (n *nodeLaunch) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// PreEnqueue keeps promised pods out of the queue until their node takes them, and pods of namespaces that sleep. It is called with the queue's lock held.
func (n *nodeLaunch) PreEnqueue(_ context.Context, pod *corev1.Pod) (status *fwk.Status) {
	defer n.guard.recovered(pointPreEnqueue, &status)
	n.guard.injected(pointPreEnqueue, pod)
	if p, ok := n.promises.Held(pod.UID); ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.Message)
	}
	if why := n.sleep.refusal(pod, time.Now()); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if n.unseen() {
		// Without the hooks nothing else sees a pod in a cluster that has no node: it fails before any plugin runs.
		n.collected.Add(intake.Entry{Pod: pod, At: time.Now(), NoNodes: true})
	}
	return nil
}

// PreFilter rejects promised pods that were in the queue already when they were promised their slot, in microseconds, and those whose namespace sleeps since. It rejects pods
// whose requests no 64 bits hold as well: the scheduler's own sums overflow, and such a pod fits every node (kubernetes#128684).
func (n *nodeLaunch) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (_ *fwk.PreFilterResult, status *fwk.Status) {
	defer n.guard.recovered(pointPreFilter, &status)
	n.guard.injected(pointPreFilter, pod)
	if p, ok := n.promises.Held(pod.UID); ok {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.Message)
	}
	if why := n.sleep.refusal(pod, time.Now()); why != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if why := plan.InvalidRequest(pod); why != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions has none.
func (n *nodeLaunch) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter hands the pod to the planner and returns at once, without a result: a nominated node would be taken for
// a preemption. The framework goes on to the next plugin after Unschedulable and ends after
// UnschedulableAndUnresolvable; so it is:
//
//   - UnschedulableAndUnresolvable where launching goes before preemption (preferLaunch);
//   - Unschedulable otherwise: whatever comes after, preemption too, may still help. A pod that preempts is not
//     launched for.
func (n *nodeLaunch) PostFilter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (_ *fwk.PostFilterResult, status *fwk.Status) {
	defer n.guard.recovered(pointPostFilter, &status)
	n.guard.injected(pointPostFilter, pod)
	if p, ok := n.promises.Get(pod.UID); ok {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.Message)
	}
	if why := n.sleep.refusal(pod, time.Now()); why != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if node, waits := n.victimsLeave(ctx, pod, statuses); waits {
		return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("no node is launched while the victims on node %s terminate", node))
	}
	if why := pinned(pod, !*n.args.IgnoreDRARequests); why != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "no node is launched: "+why)
	}
	n.collect(intake.Entry{
		Pod: pod, At: time.Now(), Nominated: pod.Status.NominatedNodeName, Refusal: n.delays.refusal(pod.UID, statuses),
	})
	if n.args.PreferLaunch != nil && corev1helpers.PodPriority(pod) < *n.args.PreferLaunch {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, n.connection.planningMessage(n.args.Socket))
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, n.connection.planningMessage(n.args.Socket))
}

// collect hands the pod to the planner. The hooks report the end of the cycle.
func (n *nodeLaunch) collect(e intake.Entry) {
	if n.hooked() {
		n.collected.AddInCycle(e)
		return
	}
	n.collected.Add(e)
}

// victimsLeave reports whether the pod was nominated a node whose victims are terminating: its room comes. A node that the filters reject whatever
// room it has, such as one that is about to terminate, is not waited for: DefaultPreemption drops that nomination in the same cycle.
func (n *nodeLaunch) victimsLeave(ctx context.Context, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (string, bool) {
	name := pod.Status.NominatedNodeName
	if name == "" || statuses.Get(name).Code() == fwk.UnschedulableAndUnresolvable {
		return "", false
	}
	info, err := n.handle.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		klog.FromContext(ctx).V(5).Info("Nominated node is gone", "pod", klog.KObj(pod), "node", name)
		return name, false
	}
	return name, victimsTerminating(info, pod)
}

package hooks

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
)

// failureHandler requeues slipway's pods as the stock handler does, without its Event and its PATCH in the scheduling loop:
// slipway writes later what the pod waits for. The stock handler gets all other pods.
func (h *hooked) failureHandler() scheduler.FailureHandlerFn {
	return func(ctx context.Context, fw framework.Framework, podInfo *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		done := false
		h.ofFailure.Do(klog.FromContext(ctx), func() {
			// If this panics half way, the stock handler repeats it: a pod is rather put back twice than lost.
			if h.handled(ctx, fw, podInfo, status, nominating) {
				done = true
				metrics.PodUnschedulable(fw.ProfileName(), metrics.SinceInSeconds(start))
			} else {
				nominating = h.keepsRoom(podInfo.Pod, status, nominating)
			}
		})
		if !done {
			h.fail(ctx, fw, podInfo, status, nominating, start)
		}
	}
}

// keepsRoom returns the nomination of a pod whose cycle has ended. A promised pod whose binding failed keeps its room: the launcher may have bound it, which
// the scheduler sees later, and others would be bound to that room.
func (h *hooked) keepsRoom(pod *corev1.Pod, status *fwk.Status, nominating *fwk.NominatingInfo) *fwk.NominatingInfo {
	if status.IsRejected() || !h.Plugin.Serves(pod.Spec.SchedulerName) {
		return nominating
	}
	if node := h.Plugin.Place(pod.UID); node != "" {
		return &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}
	}
	return nominating
}

// handled requeues the pod if it is slipway's, and reports whether it was.
func (h *hooked) handled(ctx context.Context, fw framework.Framework, podInfo *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo) bool {
	if !h.Plugin.Serves(podInfo.Pod.Spec.SchedulerName) {
		return false
	}
	if nominating.Mode() == fwk.ModeOverride {
		switch {
		case nominating.NominatedNodeName != "":
			// It may be the node that the pod was nominated to before: its room was taken, and the pod preempts others there.
			h.Plugin.Preempts(podInfo.Pod.UID)
			return false
		case podInfo.Pod.Status.NominatedNodeName != "":
			// The stock handler writes that the nomination is over. The planner still needs the verdict.
			h.ours(podInfo.Pod, status)
			return false
		}
	}
	rejectors, pending, ok := h.ours(podInfo.Pod, status)
	if ok {
		h.verdicts.confirm(podInfo.Pod.UID)
		if !rejectors.Has(h.Rejector) && follows(podInfo.Pod) {
			rejectors = rejectors.Union(affinityOf(fw))
		}
		h.requeue(klog.FromContext(ctx), podInfo, failed{rejectors, pending, nominating})
	}
	return ok
}

// ours reports whether the pod waits for slipway, and returns the plugins in whose name it is rejected.
func (h *hooked) ours(pod *corev1.Pod, status *fwk.Status) (rejectors, pending sets.Set[string], ok bool) {
	if !status.IsRejected() {
		return nil, nil, false
	}
	err := status.AsError()
	if errors.Is(err, scheduler.ErrNoNodesAvailable) {
		// Without a rejector the queue would treat the failure as an error and retry the pod forever.
		return sets.New(h.Waker), nil, h.Plugin.Collected(pod, "the cluster has no node")
	}
	var fit *framework.FitError
	if !errors.As(err, &fit) {
		return nil, nil, false
	}
	if _, promised := h.Plugin.Promised(pod); promised && fit.Diagnosis.UnschedulablePlugins.Has(h.Rejector) {
		return sets.New(h.Rejector), nil, true
	}
	post := fit.Diagnosis.PostFilterMsg
	fit.Diagnosis.PostFilterMsg = ""
	verdict := fit.Error()
	fit.Diagnosis.PostFilterMsg = post
	return fit.Diagnosis.UnschedulablePlugins, fit.Diagnosis.PendingPlugins, h.Plugin.Collected(pod, verdict)
}

// follows reports whether the pod runs only beside certain others. Those may come later: a node for this one can be launched then, and the queue would not try it
// again where the nodes have rejected it for another reason, such as for lack of room.
func follows(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// affinityOf returns the plugin by which the profile filters for affinity, as a set; an empty one for none. It has the queue try a pod again when a pod comes
// that this one's terms match.
func affinityOf(fw framework.Framework) sets.Set[string] {
	out := sets.New[string]()
	for _, pl := range fw.ListPlugins().Filter.Enabled {
		if pl.Name == names.InterPodAffinity || pl.Name == affinity.Name {
			out.Insert(pl.Name)
		}
	}
	return out
}

// failed is how a pod's cycle has ended.
type failed struct {
	// rejectors and pending are the plugins in whose name it is rejected.
	rejectors, pending sets.Set[string]
	nominating         *fwk.NominatingInfo
}

// requeue does what the stock handler does for a pod that fits no node, in the same order.
func (h *hooked) requeue(logger klog.Logger, podInfo *framework.QueuedPodInfo, f failed) {
	queue := h.Scheduler.SchedulingQueue
	pod := podInfo.Pod
	podInfo.ClearRejectorPlugins()
	podInfo.UnschedulablePlugins, podInfo.PendingPlugins = f.rejectors, f.pending

	cached, err := h.Pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || cached.Spec.NodeName != "" || cached.UID != pod.UID {
		// The pod is deleted, bound by another process, or replaced by another pod of the same name: it must not come back.
		queue.Done(pod.UID)
		return
	}
	// The API server accepted terms that cannot be parsed. The pod is queued without them, as upstream does. Upstream copies it here, and
	// queues the informer's own when it is new: the queue changes neither. A copy of each of thousands of pods is most of the process.
	podInfo.PodInfo, _ = framework.NewPodInfo(cached)
	if err := queue.AddUnschedulableIfNotPresent(logger, podInfo, queue.SchedulingCycle()); err != nil {
		logger.Error(err, "Pod was not put back into the queue", "pod", klog.KObj(pod))
	}
	// This ends a nomination in memory, such as the planner's to a node that exists, which the pod has failed on: others get the room. A
	// pod that is promised a node keeps its room there.
	if h.Plugin.Place(pod.UID) == "" {
		queue.AddNominatedPod(logger, podInfo.PodInfo, f.nominating)
	}
}

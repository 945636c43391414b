package plugin

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// queue is the scheduler's queue and its cache. It is safe for concurrent use.
type queue struct {
	sched    *scheduler.Scheduler
	objects  *objects
	profiles *profiles
	// devices are those of the scheduler's cache; nil without them.
	devices fwk.SharedDRAManager
}

// activate puts pods back into the scheduling queue, past any backoff. Pods that are bound or gone are left out.
func (q *queue) activate(refs []catalog.PodRef) {
	pods := make(map[string]*corev1.Pod, len(refs))
	for _, ref := range refs {
		if pod := q.objects.pod(ref); pod != nil && pod.Spec.NodeName == "" {
			pods[ref.Namespace+"/"+ref.Name] = pod
		}
	}
	if len(pods) > 0 {
		q.sched.SchedulingQueue.Activate(klog.Background(), pods)
	}
}

// activatePods does the same with pods.
func (q *queue) activatePods(pods []*corev1.Pod) {
	refs := make([]catalog.PodRef, len(pods))
	for i, pod := range pods {
		refs[i] = catalog.PodRefOf(pod)
	}
	q.activate(refs)
}

// nominate reserves the pod's room on the node in the scheduler's memory, against pods of its priority or a lower one.
func (q *queue) nominate(ctx context.Context, ref catalog.PodRef, nodeName string) {
	pod := q.objects.pod(ref)
	if pod == nil || pod.Spec.NodeName != "" || q.profiles.adopts(pod.Spec.SchedulerName) {
		return // The scheduler forgets a nomination when it has placed the pod: it must be its own.
	}
	// As in the scheduler's queue, a pod whose terms cannot be parsed counts without them.
	info, _ := framework.NewPodInfo(pod)
	q.sched.SchedulingQueue.AddNominatedPod(klog.FromContext(ctx), info,
		&fwk.NominatingInfo{NominatedNodeName: nodeName, NominatingMode: fwk.ModeOverride})
}

// endNomination gives back the room that is reserved for the pod in the scheduler's memory. An update of a pod whose status names a node reserves it again.
func (q *queue) endNomination(pod *corev1.Pod) {
	q.sched.SchedulingQueue.DeleteNominatedPodIfExists(pod)
}

// nominated returns the pods that are nominated to the node.
func (q *queue) nominated(node string) []fwk.PodInfo {
	return q.sched.SchedulingQueue.NominatedPodsForNode(node)
}

// assumed reports whether the scheduler has chosen a node for the pod that the API server does not show yet.
func (q *queue) assumed(pod *corev1.Pod) bool {
	assumed, err := q.sched.Cache.IsAssumedPod(pod)
	return err == nil && assumed
}

// assumedOn returns the node of an assumed pod; empty for none.
func (q *queue) assumedOn(pod *corev1.Pod) string {
	if !q.assumed(pod) {
		return ""
	}
	if known, err := q.sched.Cache.GetPod(pod); err == nil {
		return known.Spec.NodeName
	}
	return ""
}

// gathered returns how many pods of the gang have a node, are assumed on one or have finished, and the others that exist.
func (q *queue) gathered(gang string) (placed int, others []*corev1.Pod) {
	pods := q.objects.owners.PodsOfGang(gang)
	placed = q.objects.owners.Finished(pods)
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || q.assumed(pod) {
			placed++
			continue
		}
		others = append(others, pod)
	}
	return placed, others
}

// cycles returns the pods whose scheduling cycles are under way.
func (q *queue) cycles() map[types.UID]*corev1.Pod {
	out := map[types.UID]*corev1.Pod{}
	for _, pod := range q.sched.SchedulingQueue.InFlightPods() {
		out[pod.UID] = pod
	}
	return out
}

// cyclesOver reports whether each of the pods has left the scheduling cycle that it was in. One that waits in Permit or is being
// bound is still in flight, but assumed.
func (q *queue) cyclesOver(before map[types.UID]*corev1.Pod) bool {
	if len(before) == 0 {
		return true
	}
	for _, pod := range q.sched.SchedulingQueue.InFlightPods() {
		if before[pod.UID] != nil && !q.assumed(pod) {
			return false
		}
	}
	return true
}

// idle reports whether no pod is in its scheduling cycle, and none is left to try.
func (q *queue) idle() bool {
	// A busy queue nearly always has a pod in its cycle: that is seen without a copy of all pods that are left to try.
	if q.cycling() || len(q.sched.SchedulingQueue.PodsInBackoffQ()) > 0 {
		return false
	}
	// In the order in which pods go through these lists: one on its way is seen.
	return len(q.sched.SchedulingQueue.PodsInActiveQ()) == 0 && !q.cycling()
}

// cycling reports whether a pod is in its scheduling cycle. Pods that wait in Permit or are being bound are in flight, but assumed.
func (q *queue) cycling() bool {
	return slices.ContainsFunc(q.sched.SchedulingQueue.InFlightPods(), func(pod *corev1.Pod) bool { return !q.assumed(pod) })
}

// snapshot is a goroutine's own view of the scheduler's cache, updated like the scheduler's: under the cache's lock, and only what
// changed. The scheduler's own may be read nowhere but in a scheduling cycle.
type snapshot struct {
	*internalcache.Snapshot
	cache   internalcache.Cache
	devices fwk.SharedDRAManager
}

// newSnapshot returns an empty snapshot.
func (q *queue) newSnapshot() *snapshot {
	return &snapshot{Snapshot: internalcache.NewEmptySnapshot(), cache: q.sched.Cache, devices: q.devices}
}

// update has the snapshot show what the scheduler's cache does.
func (s *snapshot) update(ctx context.Context) error {
	return s.cache.UpdateSnapshot(klog.FromContext(ctx), s.Snapshot)
}

// refresh does the same, and logs a failure: the snapshot then shows what it did before.
func (s *snapshot) refresh(ctx context.Context) {
	if err := s.update(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "The scheduler's cache gave no snapshot")
	}
}

// initialized reports whether the snapshot has the node as the launcher saw it when it was initialized: with the label, and without taints that it has only
// while it joins. kube-controller-manager, which looks at Nodes every five seconds, may put one on a node that is Ready by then, and takes it away again.
func (s *snapshot) initialized(nodeName string) bool {
	info, err := s.Get(nodeName)
	return err == nil && info.Node().Labels[initializedLabel] == "true" && !reservations.Starting(info.Node())
}

// started reports whether the snapshot has the node without its startup taint.
func (s *snapshot) started(nodeName string) bool {
	info, err := s.Get(nodeName)
	return err == nil && !slices.ContainsFunc(info.Node().Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == catalog.StartingTaintKey
	})
}

// victimsLeave reports whether the snapshot has victims of the pod that are terminating on its nominated node. A node that takes the pod no more, such as
// one that is about to terminate, is not waited for.
func (s *snapshot) victimsLeave(pod *corev1.Pod) bool {
	info, err := s.Get(pod.Status.NominatedNodeName)
	return err == nil && takes(info.Node(), pod, s.devices) && victimsTerminating(info, pod)
}

package plugin

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/hooks"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// hookSide is the plugin as the hooks see it.
type hookSide struct {
	guard     *guard
	begins    *beginning
	collected *intake.Collector
	promises  *promise.Table
	objects   *objects
	profiles  *profiles
	sleep     *sleepers
	reserved  *reservations.Table
	classes   classes
	// devices are those of the scheduler's cache; nil without them.
	devices fwk.SharedDRAManager
	*trips
}

var _ hooks.Plugin = &hookSide{}

// Begin waits once until the promises of the process before are restored.
func (h *hookSide) Begin() { h.begins.wait() }

// Waiting reports whether the planner has pods whose batch a drained queue would close.
func (h *hookSide) Waiting() bool {
	h.guard.injected(hooks.NextPod, nil)
	return h.collected.Open()
}

// Drained records that the queue is empty.
func (h *hookSide) Drained() { h.collected.Drain() }

// Promised returns the message of a promise that is not open, or that the pod's namespace sleeps.
func (h *hookSide) Promised(pod *corev1.Pod) (string, bool) {
	h.guard.injected(hooks.SchedulePod, pod)
	if promise, ok := h.promises.Held(pod.UID); ok {
		return promise.Message, true
	}
	why := h.sleep.refusal(pod, time.Now())
	return why, why != ""
}

// NoNodes collects a pod that no PostFilter will see.
func (h *hookSide) NoNodes(pod *corev1.Pod) {
	h.collected.AddInCycle(intake.Entry{Pod: pod, At: time.Now(), NoNodes: true})
}

// Class returns the planner's class, together with the state of the pod's namespace, whose labels other pods' affinity may look at.
//
// It leaves out pods whose failure depends on more than the nodes and the pods on them: those with volumes that are attached,
// with resource claims or resources that a DeviceClass stands for, which may be new, in a scheduling group, with a namespace selector, and those with a nominated
// node, which is tried first.
func (h *hookSide) Class(pod *corev1.Pod) (string, bool) {
	s := &pod.Spec
	if pod.Status.NominatedNodeName != "" || len(s.ResourceClaims) > 0 || s.SchedulingGroup != nil ||
		slices.ContainsFunc(s.Volumes, attached) || selectsNamespaces(pod) || h.classedIn(s.Containers) || h.classedIn(s.InitContainers) {
		return "", false
	}
	namespace := ""
	if ns, err := h.objects.namespaces.Get(pod.Namespace); err == nil {
		namespace = ns.ResourceVersion
	}
	return h.classes.of(pod) + "/" + namespace, true
}

// classedIn reports whether one of the containers asks for a resource that a DeviceClass stands for.
func (h *hookSide) classedIn(containers []corev1.Container) bool {
	for i := range containers {
		for name := range containers[i].Resources.Requests {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory && classed(name, h.devices) {
				return true
			}
		}
	}
	return false
}

// Repeats collects a pod that no PostFilter will see, unless PostFilter would not have.
func (h *hookSide) Repeats(pod *corev1.Pod) bool {
	if pinned(pod, false) != "" {
		return false
	}
	h.collected.AddInCycle(intake.Entry{Pod: pod, At: time.Now()})
	h.guard.metrics.answers.Inc()
	return true
}

// Ordinary reports whether no room is reserved for the pod's owner: its pods prefer the nodes that have some.
func (h *hookSide) Ordinary(pod *corev1.Pod) bool { return !h.reserved.Board().For(pod) }

// Hinted counts the pod.
func (h *hookSide) Hinted() { h.guard.metrics.hinted.Inc() }

// Collected reports whether the planner will report on the pod.
func (h *hookSide) Collected(pod *corev1.Pod, verdict string) bool {
	h.guard.injected(hooks.FailureHandler, pod)
	return h.collected.Verdict(pod.UID, verdict)
}

// Preempts forgets the pod.
func (h *hookSide) Preempts(uid types.UID) { h.collected.Remove(uid) }

// Place returns the node that the pod is promised.
func (h *hookSide) Place(uid types.UID) string {
	promise, _ := h.promises.Get(uid)
	return promise.NodeName
}

// Serves reports whether the profile is ours.
func (h *hookSide) Serves(profile string) bool { return h.profiles.serves(profile) }

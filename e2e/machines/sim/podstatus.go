package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
)

// WithoutDevicesCondition is the pod condition by which a simulated machine shows that a pod's containers run without the
// devices that they request (R1). A real kubelet shows nothing: the program in the container fails.
const WithoutDevicesCondition = "sim.slipway.dev/WithoutDevices"

// rejection is why the kubelet rejected a pod, in the words of its admission handlers.
type rejection struct{ reason, message string }

// podView is what the status of a pod depends on, apart from the time.
type podView struct {
	pod      *corev1.Pod
	plan     podPlan
	rejected *rejection
	// signaled is when the kubelet began to stop the containers, stops are their ends by name, and stopped is the last of them; zero where
	// no deletion was requested.
	signaled      time.Time
	stops         map[string]containerStop
	stopped       time.Time
	hostIP, podIP string
}

// statusAt returns the status that the kubelet reports of the pod at now. Conditions that others set are kept.
func (v podView) statusAt(now time.Time) corev1.PodStatus {
	if v.rejected != nil {
		return corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: v.rejected.reason, Message: "Pod was rejected: " + v.rejected.message,
			QOSClass: v1qos.GetPodQOS(v.pod), Conditions: slices.Clone(v.pod.Status.Conditions), StartTime: v.pod.Status.StartTime,
			ObservedGeneration: v.pod.Generation, ResourceClaimStatuses: v.pod.Status.ResourceClaimStatuses,
		}
	}
	started := metav1.NewTime(v.plan.admitted)
	status := corev1.PodStatus{
		ObservedGeneration: v.pod.Generation,
		QOSClass:           v1qos.GetPodQOS(v.pod),
		StartTime:          &started,
		HostIP:             v.hostIP,
		HostIPs:            []corev1.HostIP{{IP: v.hostIP}},
		Conditions:         slices.Clone(v.pod.Status.Conditions),
		// A kubelet may not change them (NodeRestriction).
		ResourceClaimStatuses: v.pod.Status.ResourceClaimStatuses,
	}
	for _, c := range v.plan.inits {
		status.InitContainerStatuses = append(status.InitContainerStatuses, v.containerStatus(c, now))
	}
	for _, c := range v.plan.containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v.containerStatus(c, now))
	}
	if !now.Before(v.plan.sandbox) && v.podIP != "" {
		status.PodIP, status.PodIPs = v.podIP, []corev1.PodIP{{IP: v.podIP}}
	}
	status.Phase = v.phaseAt(now)
	v.setConditions(&status, now)
	return status
}

// phaseAt follows the kubelet's getPhase: Pending until every container has started, then Running until all have exited.
func (v podView) phaseAt(now time.Time) corev1.PodPhase {
	if v.over(now) {
		for _, c := range v.plan.containers {
			if code := v.exitCode(c); code != 0 {
				return corev1.PodFailed
			}
		}
		return corev1.PodSucceeded
	}
	for _, c := range v.plan.containers {
		if !v.hasStarted(c, now) {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}

// over reports whether all containers have exited for good.
func (v podView) over(now time.Time) bool {
	if !v.stopped.IsZero() && !now.Before(v.stopped) {
		return true
	}
	return !slices.ContainsFunc(v.plan.containers, func(c containerPlan) bool {
		return c.finish.IsZero() || now.Before(c.finish)
	})
}

// end returns when the last container exits, for a pod whose containers exit.
func (v podView) end() time.Time {
	var last time.Time
	for _, c := range v.plan.containers {
		last = later(last, c.finish)
	}
	if !v.stopped.IsZero() && (last.IsZero() || v.stopped.Before(last)) {
		return v.stopped
	}
	return last
}

// hasStarted reports whether the container has started. A pod that is being stopped starts no other container.
func (v podView) hasStarted(c containerPlan, now time.Time) bool {
	return !now.Before(c.start) && (v.signaled.IsZero() || !v.signaled.Before(c.start))
}

// exitCode returns the container's exit code: its own, 0 for a graceful stop, 137 for one that was killed or never started.
func (v podView) exitCode(c containerPlan) int32 {
	stop, stopped := v.stops[c.name]
	switch {
	case stopped:
		return stop.code
	case !c.finish.IsZero() && (v.stopped.IsZero() || !c.finish.After(v.stopped)):
		return c.exitCode
	case !v.signaled.IsZero() && v.signaled.Before(c.start):
		return killed
	default:
		return 0
	}
}

func (v podView) containerStatus(c containerPlan, now time.Time) corev1.ContainerStatus {
	out := corev1.ContainerStatus{Name: c.name, Image: c.image, Started: new(false)}
	id := fmt.Sprintf("containerd://%s-%s", v.pod.UID, c.name)
	switch end := v.containerEnd(c, now); {
	case !end.IsZero():
		code, reason, started := v.exitCode(c), "Completed", c.start
		switch {
		case !v.hasStarted(c, now):
			reason, started = "ContainerStatusUnknown", end
		case code != 0:
			reason = "Error"
		}
		out.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, ContainerID: id, StartedAt: metav1.NewTime(started), FinishedAt: metav1.NewTime(end),
		}
		out.ContainerID = id
		// An init container that did its work counts as ready.
		out.Ready = code == 0 && !c.finish.IsZero() && v.isInit(c)
	case !v.hasStarted(c, now):
		reason := "ContainerCreating"
		if len(v.plan.inits) > 0 && !v.isInit(c) {
			reason = "PodInitializing"
		}
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	default:
		out.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.start)}
		out.ContainerID, out.ImageID = id, "sim/"+c.image
		out.Started = new(true)
		out.Ready = c.readyAt(now)
	}
	return out
}

func (v podView) isInit(c containerPlan) bool {
	return slices.ContainsFunc(v.plan.inits, func(i containerPlan) bool { return i.name == c.name })
}

// containerEnd returns when the container exited: by itself, stopped with its pod, or as a sidecar of a pod that has ended.
// It is zero while the container has not exited.
func (v podView) containerEnd(c containerPlan, now time.Time) time.Time {
	end := c.finish
	if c.sidecar && v.over(now) {
		end = v.end()
	}
	if stop, ok := v.stops[c.name]; ok {
		end = stop.at
	} else if !v.stopped.IsZero() && (end.IsZero() || v.stopped.Before(end)) {
		end = v.stopped
	}
	if end.IsZero() || now.Before(end) {
		return time.Time{}
	}
	return end
}

// setConditions writes the kubelet's own conditions, each with the time of its transition.
func (v podView) setConditions(s *corev1.PodStatus, now time.Time) {
	over := v.over(now)
	set := func(kind corev1.PodConditionType, since time.Time, reason, message string) {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since), ObservedGeneration: v.pod.Generation}
		if over && kind != corev1.PodInitialized {
			c.LastTransitionTime = metav1.NewTime(v.end())
		}
		if reason != "" {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
		setPodCondition(s, c)
	}
	noSandbox := ""
	if over || now.Before(v.plan.sandbox) {
		noSandbox = "SandboxNotReady"
	}
	set(corev1.PodReadyToStartContainers, v.plan.sandbox, noSandbox, "")
	initialized, incomplete := v.initialized(), ""
	if now.Before(initialized) {
		incomplete = "ContainersNotInitialized"
	}
	set(corev1.PodInitialized, initialized, incomplete, "containers with incomplete status")
	since, notReady, why := v.readiness(now)
	set(corev1.ContainersReady, since, notReady, why)
	if gate := openGate(v.pod); notReady == "" && gate != "" {
		notReady, why = "ReadinessGatesNotReady", "corresponding condition of pod readiness gate \""+gate+"\" does not exist or is not true"
	}
	set(corev1.PodReady, since, notReady, why)
	if len(v.plan.missing) > 0 && !now.Before(v.plan.sandbox) {
		setPodCondition(s, corev1.PodCondition{
			Type: WithoutDevicesCondition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(v.plan.sandbox),
			Reason: "DevicePluginNotRegistered", Message: "runs without " + strings.Join(v.plan.missing, ", "),
		})
	}
}

// initialized returns when the last init container has succeeded, or is ready if it is a sidecar.
func (v podView) initialized() time.Time {
	out := v.plan.sandbox
	for _, c := range v.plan.inits {
		if c.sidecar {
			out = later(out, c.ready)
		} else {
			out = later(out, c.finish)
		}
	}
	return out
}

// readiness returns since when all containers are ready, or why they are not.
func (v podView) readiness(now time.Time) (since time.Time, reason, message string) {
	since = v.initialized()
	var unready []string
	for _, c := range v.plan.containers {
		end := v.containerEnd(c, now)
		since = later(later(since, c.ready), end)
		if !c.readyAt(now) || !end.IsZero() || !v.hasStarted(c, now) {
			unready = append(unready, c.name)
		}
	}
	switch {
	case v.over(now) && v.phaseAt(now) == corev1.PodSucceeded:
		return since, "PodCompleted", ""
	case v.over(now):
		return since, "PodFailed", ""
	case now.Before(since), len(unready) > 0:
		return since, "ContainersNotReady", "containers with unready status: [" + strings.Join(unready, " ") + "]"
	}
	return since, "", ""
}

func setPodCondition(s *corev1.PodStatus, c corev1.PodCondition) {
	for i := range s.Conditions {
		if s.Conditions[i].Type == c.Type {
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// openGate returns the first readiness gate of the pod that is not true yet.
func openGate(pod *corev1.Pod) string {
	for _, gate := range pod.Spec.ReadinessGates {
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			return string(gate.ConditionType)
		}
	}
	return ""
}

// nextChange returns the first time after now at which statusAt changes; zero for never.
func (v podView) nextChange(now time.Time) time.Time {
	if v.rejected != nil {
		return time.Time{}
	}
	var next time.Time
	at := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	at(v.plan.sandbox)
	at(v.stopped)
	for _, stop := range v.stops {
		at(stop.at)
	}
	for _, c := range slices.Concat(v.plan.inits, v.plan.containers) {
		at(c.pull)
		at(c.start)
		at(c.ready)
		at(c.finish)
	}
	return next
}

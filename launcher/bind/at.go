package bind

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Moment is when a promised pod is bound.
type Moment string

// The moments in the order of a node's life.
const (
	// Launch binds as soon as the Node object exists, before the kubelet boots.
	Launch Moment = "launch"
	// Ready binds when the kubelet reports Ready, ahead of the scheduling queue.
	Ready Moment = "ready"
	// Scheduler leaves the binding to the scheduler's own cycle, once the node accepts the pod; the promise is kept meanwhile.
	Scheduler Moment = "scheduler"
)

// Setting is the launcher's bindAt.
type Setting string

// The settings of bindAt. All except Auto are for tests and special cases.
const (
	// Auto chooses the earliest moment that helps the pod.
	Auto Setting = "auto"
	// AtLaunch binds at launch every pod that the launcher may bind and that the node does not evict before it is Ready, even if that makes a pod start later.
	AtLaunch Setting = "launch"
	// AtReady binds nothing before Ready.
	AtReady Setting = "ready"
	// Never leaves every pod to the scheduler.
	Never Setting = "never"
)

// ParseSetting parses a setting.
func ParseSetting(text string) (Setting, error) {
	s := Setting(text)
	if !slices.Contains([]Setting{Auto, AtLaunch, AtReady, Never}, s) {
		return "", fmt.Errorf("bindAt: %q is not one of auto, launch, ready, never", text)
	}
	return s, nil
}

// Facts are the inputs of the decision about one pod.
type Facts struct {
	// Pod is the pod in the API server.
	Pod *corev1.Pod
	// SchedulerOnly is why only the scheduler may bind the pod; empty if the launcher may.
	SchedulerOnly string
	// Taints are those of the Node object, or those that it will have.
	Taints []corev1.Taint
	// UnboundVolume names a PersistentVolumeClaim of the pod that is not bound; empty if there is none.
	UnboundVolume string
	// VolumeLabel is a label that a volume of the pod asks for and that the node, which is Ready, does not have yet; empty if there is none.
	VolumeLabel string
	// NetworkAtStart means that nodes of the pod's NodePool were observed with their network ready at the kubelet's start.
	NetworkAtStart bool
	// SwitchedOff is why the launcher binds no pods in the pod's NodePool; empty if it does.
	SwitchedOff string
	// Setting of the launcher.
	Setting Setting
}

// shortest is the minimum toleration of a NoExecute taint with which a pod is bound: with a shorter one it might be evicted before it runs.
const shortest = 60 * time.Second

// Verdict is when a promised pod is bound, and why.
type Verdict struct {
	// Moment of the binding.
	Moment Moment
	// Code names the rule that decided.
	Code string
	// Reason is the rule's reason, for people.
	Reason string
}

// At decides when a promised pod is bound: by the first rule that matches.
func (t Table) At(f Facts) Verdict {
	for _, r := range t {
		if why := r.Why(f); why != "" {
			return Verdict{Moment: r.Moment, Code: r.Code, Reason: why}
		}
	}
	return Verdict{Moment: Scheduler} // Unreachable: the last rule matches every pod.
}

// blocking returns a taint with which the pod must not be bound: one that it does not tolerate, or a NoExecute one that it tolerates for too
// short a time. The launcher's own taint does not block, and not-ready:NoSchedule is removed at Ready.
func blocking(pod *corev1.Pod, taints []corev1.Taint) string {
	for _, taint := range taints {
		passing := taint.Key == catalog.StartingTaintKey ||
			taint.Key == corev1.TaintNodeNotReady && taint.Effect == corev1.TaintEffectNoSchedule ||
			taint.Effect == corev1.TaintEffectPreferNoSchedule
		if !passing && !tolerated(pod.Spec.Tolerations, taint) {
			return "taint " + taint.ToString()
		}
	}
	return ""
}

// evicting returns the taint that kube-controller-manager adds to a node whose kubelet has registered and is not Ready, and for how long a pod must
// tolerate it; "" if the pod does. The eviction does not consider PodDisruptionBudgets (pkg/controller/nodelifecycle, pkg/controller/tainteviction).
func evicting(pod *corev1.Pod) string {
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	if tolerated(pod.Spec.Tolerations, notReady) {
		return ""
	}
	return "taint " + notReady.ToString() + " for " + shortest.String()
}

// tolerated uses the shortest of several tolerations that match a NoExecute taint (pkg/controller/tainteviction).
func tolerated(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	found := false
	for _, t := range tolerations {
		if !Tolerates(t, taint) {
			continue
		}
		if taint.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds != nil &&
			time.Duration(*t.TolerationSeconds)*time.Second < shortest {
			return false
		}
		found = true
	}
	return found
}

// Tolerates is the rule of k8s.io/api/core/v1, Toleration.ToleratesTaint, for the operators Exists and Equal: numeric operators
// are for taints that NodePools do not set.
func Tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case "", corev1.TolerationOpEqual:
		return t.Key != "" && t.Value == taint.Value
	default:
		return false
	}
}

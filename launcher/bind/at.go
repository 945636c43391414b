package bind

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Moment is when a promised pod is bound.
type Moment string

// The moments in the order of a node's life.
const (
	// Launch: as soon as the Node object exists, before the kubelet boots.
	Launch Moment = "launch"
	// Ready: the moment the kubelet says Ready, ahead of the scheduling queue.
	Ready Moment = "ready"
	// Scheduler: in the scheduler's own cycle, once the node is initialized; the promise is kept meanwhile.
	Scheduler Moment = "scheduler"
)

// Setting is the launcher's bindAt.
type Setting string

// The settings of bindAt. All but Auto are for tests and for those who know better.
const (
	// Auto chooses the earliest moment that helps the pod.
	Auto Setting = "auto"
	// AtLaunch binds at launch whatever can be bound by us at all, even where that makes a pod start later.
	AtLaunch Setting = "launch"
	// AtReady binds nothing before Ready.
	AtReady Setting = "ready"
	// Never leaves every pod to the scheduler.
	Never Setting = "never"
)

// ParseSetting reads a setting.
func ParseSetting(text string) (Setting, error) {
	s := Setting(text)
	if !slices.Contains([]Setting{Auto, AtLaunch, AtReady, Never}, s) {
		return "", fmt.Errorf("bindAt: %q is not one of auto, launch, ready, never", text)
	}
	return s, nil
}

// Facts are what the decision about one pod depends on.
type Facts struct {
	// Pod as the API server has it.
	Pod *corev1.Pod
	// SchedulerOnly is why the scheduler keeps the pod to itself; empty where it does not.
	SchedulerOnly string
	// Taints of the node: those of the Node object, or those it will have.
	Taints []corev1.Taint
	// UnboundVolume names a PersistentVolumeClaim of the pod that is not bound; empty where there is none.
	UnboundVolume string
	// Setting of the launcher.
	Setting Setting
}

// shortest is the toleration of a NoExecute taint below which a pod is not bound under it: it might be evicted before it
// runs.
const shortest = 60 * time.Second

// At decides when a promised pod is bound, with the reason for a human.
func At(f Facts) (Moment, string) {
	if reason := keptBack(f); reason != "" {
		return Scheduler, reason
	}
	switch f.Setting {
	case AtLaunch:
		return Launch, "bindAt is launch"
	case AtReady:
		return Ready, "bindAt is ready"
	case Auto, Never:
	}
	controller := metav1.GetControllerOf(f.Pod)
	switch {
	case controller != nil && controller.Kind == "Job":
		return Ready, "a Job counts a pod that its kubelet rejects as failed"
	case f.Pod.Spec.HostNetwork:
		return Launch, "it uses the host's network and starts as soon as the kubelet does"
	case apiBacked(f.Pod) == "":
		return Launch, "it has no volume that the API server backs, so that waiting for the network costs it nothing"
	}
	return Ready, fmt.Sprintf("volume %s would make it start later if it were bound before the network is ready", apiBacked(f.Pod))
}

// keptBack says why a pod is left to the scheduler's own cycle; empty where it is not. The cases are R1 to R8 of the
// failures that early binding once had in Karpenter.
func keptBack(f Facts) string {
	switch {
	case f.Setting == Never:
		return "bindAt is never"
	case f.SchedulerOnly != "":
		return f.SchedulerOnly
	case metav1.GetControllerOf(f.Pod) == nil:
		return "it has no controller: a kubelet's rejection would lose it"
	case len(f.Pod.Spec.ResourceClaims) > 0:
		return "its resource claims are allocated once the node publishes its devices"
	case f.UnboundVolume != "":
		return "volume claim " + f.UnboundVolume + " is bound once the node's CSI driver is there"
	}
	if name := extended(f.Pod); name != "" {
		return "it asks for " + name + ", which the node shows once its device plugin is there"
	}
	if taint := blocking(f.Pod, f.Taints); taint != "" {
		return "it does not tolerate " + taint
	}
	return ""
}

// apiBacked names a volume whose content the kubelet reads from the API server. Such a pod, bound before the network is
// ready, fails to mount and backs off (pkg/kubelet/kubelet.go, SyncPod, registers its objects only after the network check).
func apiBacked(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil || v.Secret != nil || v.Projected != nil {
			return v.Name
		}
	}
	return ""
}

// extended names an extended resource that the pod asks for.
func extended(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name := range c.Resources.Requests {
			if isExtended(string(name)) {
				return string(name)
			}
		}
	}
	return ""
}

// isExtended: names with a domain outside kubernetes.io (pkg/apis/core/v1/helper, IsExtendedResourceName).
func isExtended(name string) bool {
	domain, _, qualified := strings.Cut(name, "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// blocking names a taint under which the pod must not be bound: one that it does not tolerate, or a NoExecute one that it
// tolerates for too short. Ours is there for others, and not-ready:NoSchedule goes with Ready.
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

// tolerated: of several tolerations that match a NoExecute taint the shortest counts (pkg/controller/tainteviction).
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

package bind

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rule is one line of the table of when pods are bound. docs/node-lifecycle.md shows the same table.
type Rule struct {
	// Code names the rule: one CamelCase word.
	Code string
	// Moment is when a matching pod is bound.
	Moment Moment
	// Why returns why the rule matches this pod, for people; "" if it does not match.
	Why func(Facts) string
}

// Table has the rules in their order.
type Table []Rule

// CodeTaint is the code of the rule for a pod that does not tolerate a taint of the node. It may be bound once the taint is gone.
const CodeTaint = "TaintNotTolerated"

// Rules returns the whole table. The first matching rule decides; the last one matches every pod. The rules that leave a pod to the
// scheduler come first: no setting overrides them except Never, since what they prevent loses or breaks pods (R1 to R9 of
// docs/node-lifecycle.md). The same holds for EvictedBeforeReady.
func Rules() Table {
	return Table{
		{"BindAtNever", Scheduler, set(Never)},
		{"ProfilePlugins", Scheduler, func(f Facts) string { return f.SchedulerOnly }},
		{"NoController", Scheduler, when(bare, "it has no controller: a kubelet's rejection would lose it")},
		{"ResourceClaims", Scheduler, when(func(f Facts) bool { return len(f.Pod.Spec.ResourceClaims) > 0 },
			"its resource claims are allocated once the node publishes its devices")},
		{"UnboundVolume", Scheduler, about("volume claim %s is bound once the node's CSI driver is there", func(f Facts) string { return f.UnboundVolume })},
		{"ExtendedResource", Scheduler, about("it asks for %s, which the node shows once its device plugin is there",
			func(f Facts) string { return extended(f.Pod) })},
		{CodeTaint, Scheduler, about("it does not tolerate %s", func(f Facts) string { return blocking(f.Pod, f.Taints) })},
		{"SwitchedOff", Scheduler, about("pre-binding is off for its NodePool: %s", func(f Facts) string { return f.SwitchedOff })},
		{"VolumeLabel", Scheduler, about("its volume asks for the label %s, which the node gets once the CSI driver is there", func(f Facts) string { return f.VolumeLabel })},
		{"EvictedBeforeReady", Ready, about("it does not tolerate %s: it would be evicted while the node boots", func(f Facts) string { return evicting(f.Pod) })},
		{"BindAtLaunch", Launch, set(AtLaunch)},
		{"BindAtReady", Ready, set(AtReady)},
		{"Job", Ready, when(func(f Facts) bool { return controlledBy(f, "Job") }, "a Job counts a pod that its kubelet rejects as failed")},
		{"VolumeDriver", Ready, about("volume %s needs its CSI driver, which starts with the node", func(f Facts) string { return driven(f.Pod) })},
		{"HostNetwork", Launch, when(func(f Facts) bool { return f.Pod.Spec.HostNetwork },
			"it uses the host's network and starts as soon as the kubelet does")},
		{"NoAPIVolume", Launch, when(func(f Facts) bool { return apiBacked(f.Pod) == "" },
			"it has no volume that the API server backs, so that waiting for the network costs it nothing")},
		{"NetworkAtStart", Launch, when(func(f Facts) bool { return f.NetworkAtStart },
			"the nodes of its NodePool have their network ready when their kubelet starts")},
		{"NetworkNotReady", Ready, func(f Facts) string {
			return fmt.Sprintf("volume %s would make it start later if it were bound before the network is ready", apiBacked(f.Pod))
		}},
	}
}

// set matches every pod under one setting of bindAt.
func set(s Setting) func(Facts) string {
	return when(func(f Facts) bool { return f.Setting == s }, "bindAt is "+string(s))
}

// when matches the pods for which holds returns true.
func when(holds func(Facts) bool, why string) func(Facts) string {
	return func(f Facts) string {
		if holds(f) {
			return why
		}
		return ""
	}
}

// about matches the pods for which what returns a name.
func about(format string, what func(Facts) string) func(Facts) string {
	return func(f Facts) string {
		if name := what(f); name != "" {
			return fmt.Sprintf(format, name)
		}
		return ""
	}
}

func bare(f Facts) bool { return metav1.GetControllerOfNoCopy(f.Pod) == nil }

func controlledBy(f Facts, kind string) bool {
	controller := metav1.GetControllerOfNoCopy(f.Pod)
	return controller != nil && controller.Kind == kind
}

// tokenVolume is the prefix of the volume that every pod gets for its service account's token. Its suffix is random, and would make one
// reason into as many as there are pods (plugin/pkg/admission/serviceaccount, ServiceAccountVolumeName).
const tokenVolume = "kube-api-access"

// apiBacked returns a volume whose content the kubelet reads from the API server. If such a pod is bound before the network is ready, its
// mount fails and backs off (pkg/kubelet/kubelet.go, SyncPod, registers its objects only after the network check).
func apiBacked(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil || v.Secret != nil || v.Projected != nil {
			if strings.HasPrefix(v.Name, tokenVolume+"-") {
				return tokenVolume
			}
			return v.Name
		}
	}
	return ""
}

// driven returns a volume that a CSI driver mounts: before the driver has registered with the kubelet every attempt fails and doubles the
// wait (pkg/volume/csi).
func driven(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil {
			return v.Name
		}
	}
	return ""
}

// extended returns an extended resource that the pod requests.
func extended(pod *corev1.Pod) string {
	// Concatenated lists would be copies of all containers, for each pod of each look.
	return cmp.Or(extendedOf(pod.Spec.InitContainers), extendedOf(pod.Spec.Containers))
}

func extendedOf(containers []corev1.Container) string {
	for i := range containers {
		for name, q := range containers[i].Resources.Requests {
			if isExtended(string(name)) && !q.IsZero() {
				return string(name)
			}
		}
	}
	return ""
}

// isExtended reports whether the name has a domain outside kubernetes.io (pkg/apis/core/v1/helper, IsExtendedResourceName).
func isExtended(name string) bool {
	domain, _, qualified := strings.Cut(name, "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

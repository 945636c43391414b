package plan

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// The labels by which pods form a gang, and what says how many of them make it complete.
const (
	// LabelGang names the gang of a pod within its namespace: its pods are placed together or not at all.
	LabelGang = "slipway.dev/gang"
	// KeyGangSize, as annotation or label, is how many pods of a gang must be placed together; all that are planned at the
	// same time where it is missing.
	KeyGangSize = "slipway.dev/gang-size"
	// LabelPodGroup is read as LabelGang: the label of the coscheduling plugin (sigs.k8s.io/scheduler-plugins).
	LabelPodGroup = "scheduling.x-k8s.io/pod-group"
)

// Gang is what a pod says of its gang.
type Gang struct {
	// Name is NAMESPACE/NAME; empty for a pod without a gang.
	Name string
	// Size is how many pods must be placed together; 0 for all that are planned at the same time.
	Size int
}

// GangOf reads the gang of a pod from its labels and annotations. A size that is not a positive number counts as missing.
func GangOf(pod *corev1.Pod) Gang {
	name := pod.Labels[LabelGang]
	if name == "" {
		name = pod.Labels[LabelPodGroup]
	}
	if name == "" {
		return Gang{}
	}
	size, err := strconv.Atoi(pod.Annotations[KeyGangSize])
	if err != nil {
		size, err = strconv.Atoi(pod.Labels[KeyGangSize])
	}
	if err != nil || size < 0 {
		size = 0
	}
	return Gang{Name: pod.Namespace + "/" + name, Size: size}
}

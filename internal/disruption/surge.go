package disruption

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// SurgeAnnotation with the value "false" on a pod keeps it in its ReplicaSet until it is evicted.
	SurgeAnnotation = "slipway.dev/surge"
	// ReleasedAnnotation is on a pod that a drain released from its ReplicaSet. Its value is a Released as text.
	ReleasedAnnotation = "slipway.dev/released-from"
	// SurgePatience is how long a released pod waits for its replacement to be Ready.
	SurgePatience = 5 * time.Minute
)

// Released records that a pod was released from its ReplicaSet, so that the set starts the replacement before the pod ends.
type Released struct {
	// Set is the name of the ReplicaSet.
	Set string
	// Version is the resourceVersion that the ReplicaSet had before.
	Version string
	// At is when.
	At time.Time
}

// String returns the value of ReleasedAnnotation.
func (r Released) String() string {
	return r.Set + " " + r.Version + " " + r.At.UTC().Format(time.RFC3339)
}

// ReleasedFrom returns what ReleasedAnnotation says, and whether the pod has it. What cannot be read is of no set and no time.
func ReleasedFrom(pod *corev1.Pod) (Released, bool) {
	text, ok := pod.Annotations[ReleasedAnnotation]
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return Released{}, ok
	}
	at, err := time.Parse(time.RFC3339, fields[2])
	if err != nil {
		return Released{}, ok
	}
	return Released{Set: fields[0], Version: fields[1], At: at}, ok
}

// Leaves reports whether the pod's place is its replacement's: it is being deleted, or was released and its ReplicaSet has let go of it. One that the set
// has adopted again stays.
func Leaves(pod *corev1.Pod) bool {
	_, released := ReleasedFrom(pod)
	return pod.DeletionTimestamp != nil || released && metav1.GetControllerOfNoCopy(pod) == nil
}

// Sole reports whether the pod serves and is the only one of its ReplicaSet: when it ends, nothing serves until its replacement does.
func Sole(pod *corev1.Pod, set *appsv1.ReplicaSet) bool {
	return Serves(pod) && metav1.IsControlledBy(pod, set) && set.Spec.Replicas != nil && *set.Spec.Replicas == 1
}

// SurgeRefusal returns why a Deployment's only pod may not run beside its replacement; empty if it may. A rolling update with a surge runs
// both as well, so what the Deployment allows there is what it allows here. deployment is nil where none controls the ReplicaSet. claims are
// the PersistentVolumeClaims that the pod names; one that is missing counts as a volume for one node. budgets are the
// PodDisruptionBudgets, none where the pod ends whatever they say. A released pod counts as healthy and not as expected: even a budget that allows no eviction
// would let it be evicted.
func SurgeRefusal(pod *corev1.Pod, set *appsv1.ReplicaSet, deployment *appsv1.Deployment, claims []*corev1.PersistentVolumeClaim, budgets PodBudgets) string {
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	switch {
	case pod.Annotations[SurgeAnnotation] == "false":
		return fmt.Sprintf("it has the annotation %s: \"false\"", SurgeAnnotation)
	case deployment == nil || set.Spec.Selector == nil || hash == "" || set.Spec.Selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] != hash:
		return "its ReplicaSet is of no Deployment"
	case deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType:
		return fmt.Sprintf("its Deployment has the strategy %s", deployment.Spec.Strategy.Type)
	case maxSurge(deployment) == 0:
		return "its Deployment has maxSurge 0"
	}
	for _, name := range VolumeClaims(pod) {
		if !slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name && forManyNodes(c) }) {
			return fmt.Sprintf("both would need PersistentVolumeClaim %s, which only one node may mount", name)
		}
	}
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			return fmt.Sprintf("both would need ResourceClaim %s", *c.ResourceClaimName)
		}
	}
	return forbidden(pod, budgets)
}

// VolumeClaims lists the PersistentVolumeClaims that a pod names, and its replacement as well. A generic ephemeral volume is a pod's own.
func VolumeClaims(pod *corev1.Pod) []string {
	var out []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return out
}

// forManyNodes reports whether pods on several nodes may use a volume at the same time, by its access modes.
func forManyNodes(claim *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany)
}

// maxSurge returns how many pods a Deployment of one replica may have beside it in a rolling update. A share is rounded up, and the default
// is 25%, as in the Deployment's API.
func maxSurge(d *appsv1.Deployment) int {
	if d.Spec.Strategy.RollingUpdate == nil || d.Spec.Strategy.RollingUpdate.MaxSurge == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(d.Spec.Strategy.RollingUpdate.MaxSurge, 1, true)
	if err != nil {
		return 0
	}
	return n
}

// Replaced reports whether a released pod has waited enough: its replacement is Ready, none will come, or the patience is over. set is nil
// where the ReplicaSet does not exist.
func Replaced(pod *corev1.Pod, from Released, set *appsv1.ReplicaSet, now time.Time) bool {
	if from.At.After(now) || now.Sub(from.At) >= SurgePatience {
		return true
	}
	if set == nil || set.DeletionTimestamp != nil || set.Spec.Replicas == nil || *set.Spec.Replicas == 0 {
		return true
	}
	// Its status counts the released pod until its controller has seen the release.
	newer, err := resourceversion.CompareResourceVersion(set.ResourceVersion, from.Version)
	if err != nil {
		return true
	}
	return newer > 0 && metav1.GetControllerOfNoCopy(pod) == nil && set.Status.ReadyReplicas > 0
}

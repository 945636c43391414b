package buffers

import (
	"fmt"
	"maps"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Priority of the pods: the lowest that there is. The type has 32 bits.
const Priority int32 = math.MinInt32

// MostPods is how many pods of one buffer are made at most, whatever the launcher asks for.
const MostPods = 1000

// Karpenter's annotations of such a pod.
const (
	annotationFake      = "karpenter.sh/capacity-buffer-fake-pod"
	annotationName      = "karpenter.sh/capacity-buffer-name"
	annotationNamespace = "karpenter.sh/capacity-buffer-namespace"
)

// Buffer is a CapacityBuffer as the launcher resolved it.
type Buffer struct {
	// Namespace, Name and UID of the object.
	Namespace, Name, UID string
	// Count is how many pods there shall be room for.
	Count int
	// Template of the pods.
	Template corev1.PodTemplateSpec
	// Whole means that all pods have room, or none has: they are a gang.
	Whole bool
}

// Pods returns the pods of the buffer. The scheduler of that name is whose profile they are planned with. They share their spec, labels and
// annotations, and are read only.
//
// What of the template is about one pod that runs is left out: its node, its volume claims, which do not exist, its scheduling gates, which
// nothing would remove, its resource claims, and its gang, which would be complete without the pods that come.
func (b *Buffer) Pods(scheduler string) []*corev1.Pod {
	spec := planned(b.Template.Spec)
	spec.SchedulerName = scheduler
	labels := maps.Clone(b.Template.Labels)
	for _, gang := range []string{plan.LabelGang, plan.LabelPodGroup, plan.KeyGangSize} {
		delete(labels, gang)
	}
	if b.Whole {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[plan.LabelGang] = "capacity-buffer." + b.UID
	}
	annotations := map[string]string{annotationFake: "true", annotationName: b.Name, annotationNamespace: b.Namespace}
	out := make([]*corev1.Pod, 0, min(max(b.Count, 0), MostPods))
	for i := 1; i <= cap(out); i++ {
		pod := &corev1.Pod{Spec: spec}
		// No pod of a user has a colon in its name.
		pod.Namespace, pod.Name = b.Namespace, fmt.Sprintf("capacity-buffer:%s-%d", b.Name, i)
		pod.UID = types.UID(catalog.VirtualUIDPrefix + b.UID + "/" + strconv.Itoa(i))
		pod.Labels, pod.Annotations = labels, annotations
		out = append(out, pod)
	}
	return out
}

// NameOf returns the namespace and name of the buffer whose pod it is; empty for a pod of no buffer.
func NameOf(pod *corev1.Pod) string {
	if !catalog.PodRefOf(pod).Virtual() || pod.Annotations[annotationFake] == "" {
		return ""
	}
	return pod.Annotations[annotationNamespace] + "/" + pod.Annotations[annotationName]
}

// planned returns the spec without what no pod of a buffer has.
func planned(spec corev1.PodSpec) corev1.PodSpec {
	out := *spec.DeepCopy()
	priority, policy := Priority, corev1.PreemptNever
	out.Priority, out.PriorityClassName, out.PreemptionPolicy = &priority, "", &policy
	out.NodeName, out.Hostname, out.Subdomain = "", "", ""
	out.SchedulingGates, out.ResourceClaims = nil, nil
	out.Volumes = nil
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			out.Volumes = append(out.Volumes, v)
		}
	}
	return out
}

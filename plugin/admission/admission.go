package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	scheduling "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
)

// errSelectorConflict reports that admission refuses the pod: its nodeSelector contradicts that of its RuntimeClass.
var errSelectorConflict = errors.New("nodeSelector contradicts that of the RuntimeClass")

// mostLimits bounds the work that the LimitRanges of a namespace cause for one pod: their entries times the pod's containers. A tenant may
// write as many of either as etcd holds.
const mostLimits = 1 << 14

// Limit returns the spec with the defaults of the namespace's LimitRanges. The error names the LimitRange that refuses the
// pod, or says that they are too many to read. ranges may be of all namespaces. They must be in the order in which they apply,
// with the API server's defaults set.
func Limit(ranges []*corev1.LimitRange, namespace string, spec corev1.PodSpec) (corev1.PodSpec, error) {
	var here []*corev1.LimitRange
	for _, l := range ranges {
		if l.Namespace == namespace {
			here = append(here, l)
		}
	}
	if len(here) == 0 {
		return spec, nil
	}
	if n := limits(here) * (len(spec.Containers) + len(spec.InitContainers)); n > mostLimits {
		return corev1.PodSpec{}, fmt.Errorf("the LimitRanges of the namespace have %d limits for the pod's containers, at most %d are read", n, mostLimits)
	}
	pod, internal := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: *spec.DeepCopy()}, &core.Pod{}
	if err := corev1conversion.Convert_v1_Pod_To_core_Pod(pod, internal, nil); err != nil {
		return corev1.PodSpec{}, fmt.Errorf("converting the pod: %w", err)
	}
	for _, l := range here {
		if err := limitranger.PodMutateLimitFunc(l, internal); err != nil {
			return corev1.PodSpec{}, fmt.Errorf("LimitRange %s: %w", l.Name, err)
		}
	}
	for _, l := range here {
		if err := limitranger.PodValidateLimitFunc(l, internal); err != nil {
			return corev1.PodSpec{}, fmt.Errorf("LimitRange %s: %w", l.Name, err)
		}
	}
	out := corev1.Pod{}
	if err := corev1conversion.Convert_core_Pod_To_v1_Pod(internal, &out, nil); err != nil {
		return corev1.PodSpec{}, fmt.Errorf("converting the pod: %w", err)
	}
	return out.Spec, nil
}

// limits returns how many entries the LimitRanges have.
func limits(ranges []*corev1.LimitRange) int {
	n := 0
	for _, l := range ranges {
		for _, item := range l.Spec.Limits {
			n += 1 + len(item.Max) + len(item.Min) + len(item.Default) + len(item.DefaultRequest) + len(item.MaxLimitRequestRatio)
		}
	}
	return n
}

// SetRuntimeClass writes the overhead and the scheduling of the RuntimeClass into the spec. The error is the reason for
// which the API server refuses the pod; the spec is then unchanged.
func SetRuntimeClass(s *corev1.PodSpec, class *nodev1.RuntimeClass) error {
	if class.Overhead != nil && len(s.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, s.Overhead) {
		return fmt.Errorf("overhead differs from that of RuntimeClass %s", class.Name)
	}
	selector := map[string]string{}
	if class.Scheduling != nil {
		maps.Copy(selector, class.Scheduling.NodeSelector)
		for key, value := range s.NodeSelector {
			if other, both := selector[key]; both && other != value {
				return fmt.Errorf("%w %s: %s is %s and %s", errSelectorConflict, class.Name, key, value, other)
			}
			selector[key] = value
		}
		s.NodeSelector = selector
		s.Tolerations = slices.Concat(s.Tolerations, class.Scheduling.Tolerations)
	}
	if class.Overhead != nil {
		s.Overhead = class.Overhead.PodFixed
	}
	return nil
}

// PriorityClassOf returns the class that gives the pod its priority: the one that it names, else the global default. Of
// several global defaults it is the lowest, as in admission. The class is nil for a pod of priority 0 without a class. found
// is false where the named class does not exist. The two system classes exist in every cluster and need not be listed.
func PriorityClassOf(classes []*schedulingv1.PriorityClass, s *corev1.PodSpec) (class *schedulingv1.PriorityClass, found bool) {
	for _, c := range classes {
		switch {
		case s.PriorityClassName != "" && c.Name == s.PriorityClassName:
			return c, true
		case s.PriorityClassName == "" && c.GlobalDefault && (class == nil || c.Value < class.Value):
			class = c
		}
	}
	if s.PriorityClassName == "" {
		return class, true
	}
	for _, c := range scheduling.SystemPriorityClasses() {
		if c.Name == s.PriorityClassName {
			return c, true
		}
	}
	return nil, false
}

// SetPriority writes the value and the preemption policy of the class into a spec without a priority; nil means priority 0.
func SetPriority(s *corev1.PodSpec, class *schedulingv1.PriorityClass) {
	if s.Priority != nil {
		return
	}
	s.Priority = new(int32(0))
	if class == nil {
		return
	}
	*s.Priority = class.Value
	if class.PreemptionPolicy != nil && (s.PreemptionPolicy == nil || *s.PreemptionPolicy == corev1.PreemptLowerPriority) {
		s.PreemptionPolicy = class.PreemptionPolicy
	}
}

package buffersize

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/clip"
)

// The annotations of a reserved buffer that say which pods may take its room. Without either they are the pods of the workload, or those with all
// labels of the PodTemplate.
const (
	// ReservedForAnnotation is a label selector of pods of the buffer's namespace.
	ReservedForAnnotation = "slipway.dev/reserved-for"
	// ReservedForPriorityAnnotation is the least priority of pods, of any namespace.
	ReservedForPriorityAnnotation = "slipway.dev/reserved-for-priority"
)

// mostSelector is the length of a selector, in bytes.
const mostSelector = 4096

// Takers are the pods that may take reserved room. A pod that either of the two matches may.
type Takers struct {
	// Selector of pods of the buffer's namespace, as text; empty for none.
	Selector string
	// Priority is the least priority of pods, of any namespace; nil for none.
	Priority *int32
}

// Matcher matches the pods that may take reserved room. The zero value matches none.
type Matcher struct {
	// Namespace of the pods that Selector is about.
	Namespace string
	// Selector of pods of the namespace; nil for none.
	Selector labels.Selector
	// Priority is the least priority of pods, of any namespace; nil for none.
	Priority *int32
}

// Matcher returns what matches the pods, for a buffer of the namespace.
func (t Takers) Matcher(namespace string) (*Matcher, error) {
	out := &Matcher{Namespace: namespace, Priority: t.Priority}
	if t.Selector == "" {
		return out, nil
	}
	var err error
	out.Selector, err = labels.Parse(t.Selector)
	return out, err
}

// Match reports whether the pod may take the room.
func (m *Matcher) Match(pod *corev1.Pod) bool {
	if m.Priority != nil && corev1helpers.PodPriority(pod) >= *m.Priority {
		return true
	}
	return m.Selector != nil && pod.Namespace == m.Namespace && m.Selector.Matches(labels.Set(pod.Labels))
}

// TakersOf returns the pods that may take the room of a reserved buffer. own selects the pods of what it refers to. The error says what is wrong, for
// the owner of the buffer: a selector of all pods would reserve nothing.
func TakersOf(cb *autoscalingv1beta1.CapacityBuffer, own *metav1.LabelSelector) (Takers, error) {
	var out Takers
	text, selects := cb.Annotations[ReservedForAnnotation]
	priority, ranks := cb.Annotations[ReservedForPriorityAnnotation]
	if ranks {
		n, err := strconv.ParseInt(priority, 10, 32)
		if err != nil || n < 1 {
			return out, fmt.Errorf("metadata.annotations[%s]: %q is no priority, want a number from 1: pods have 0 without a PriorityClass",
				ReservedForPriorityAnnotation, clip.Text(priority, mostMessage))
		}
		out.Priority = new(int32(n))
		if !selects {
			return out, nil
		}
	}
	from := "metadata.annotations[" + ReservedForAnnotation + "]"
	if !selects {
		from = "the selector of its pods"
		selector, err := metav1.LabelSelectorAsSelector(own)
		if err != nil {
			return out, fmt.Errorf("%s: %w", from, err)
		}
		text = selector.String()
	}
	if len(text) > mostSelector {
		return out, fmt.Errorf("%s: it has %d bytes, at most %d are read", from, len(text), mostSelector)
	}
	selector, err := labels.Parse(text)
	switch {
	case err != nil:
		return out, fmt.Errorf("%s: %w", from, err)
	case own == nil && !selects || selector.Matches(labels.Set{}):
		return out, fmt.Errorf("%s: %q selects pods without labels, which may be all: want a label that the pods have", from, text)
	}
	out.Selector = selector.String()
	return out, nil
}

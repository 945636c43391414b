package input

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	conversions "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
)

// limited is what admission makes of the spec of a shape of pods.
type limited struct {
	spec corev1.PodSpec
	err  error
}

// limit does to pods that no API server has seen what its LimitRanger would: defaults of the namespace's LimitRanges are
// filled in, and pods beyond their bounds are refused.
func (r *Reader) limit(pods []Pod) []Pod {
	if len(r.limitRanges.items) == 0 {
		return pods
	}
	for _, l := range r.limitRanges.items {
		conversions.SetObjectDefaults_LimitRange(l)
	}
	slices.SortStableFunc(r.limitRanges.items, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	known := map[int]limited{}
	return slices.DeleteFunc(pods, func(p Pod) bool {
		if !p.unseen || p.Spec.NodeName != "" {
			return false
		}
		l, ok := known[p.Shape]
		if !ok {
			l = r.admitted(p.Namespace, p.Spec)
			known[p.Shape] = l
			if l.err != nil {
				r.problem(nameOf("Pod", p), "spec.containers", "%v", l.err)
			}
		}
		if l.err != nil {
			r.invalid = append(r.invalid, Invalid{p.Namespace, p.Name, l.err.Error()})
			return true
		}
		volumes := p.Spec.Volumes // of a StatefulSet's pod its own
		p.Spec = l.spec
		p.Spec.Volumes = volumes
		return false
	})
}

// admitted is the spec with the defaults of the namespace's LimitRanges; the error says which of their bounds it breaks.
func (r *Reader) admitted(namespace string, spec corev1.PodSpec) limited {
	whole, internal := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: *spec.DeepCopy()}, &core.Pod{}
	if err := conversions.Convert_v1_Pod_To_core_Pod(whole, internal, nil); err != nil {
		return limited{err: err}
	}
	here := slices.DeleteFunc(slices.Clone(r.limitRanges.items), func(l *corev1.LimitRange) bool { return l.Namespace != namespace })
	for _, l := range here {
		if err := limitranger.PodMutateLimitFunc(l, internal); err != nil {
			return limited{err: fmt.Errorf("LimitRange %s: %w", l.Name, err)}
		}
	}
	for _, l := range here {
		if err := limitranger.PodValidateLimitFunc(l, internal); err != nil {
			return limited{err: fmt.Errorf("LimitRange %s: %w", l.Name, err)}
		}
	}
	out := corev1.Pod{}
	err := conversions.Convert_core_Pod_To_v1_Pod(internal, &out, nil)
	return limited{out.Spec, err}
}

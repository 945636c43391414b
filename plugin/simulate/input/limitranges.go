package input

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/slipway-k8s/slipway/plugin/admission"
)

// limited is the spec of a shape of pods after the LimitRanges.
type limited struct {
	spec corev1.PodSpec
	err  error
}

// limit does what LimitRanger does, to pods that no API server has admitted: it sets the defaults of the namespace's LimitRanges,
// and refuses pods that exceed their bounds.
func (r *Reader) limit(pods []Pod) []Pod {
	if len(r.limitRanges.items) == 0 {
		return pods
	}
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
		volumes := p.Spec.Volumes // A StatefulSet's pod has its own.
		p.Spec = l.spec
		p.Spec.Volumes = volumes
		return false
	})
}

// admitted returns the spec with the defaults of the namespace's LimitRanges. The error names the bound that it exceeds.
func (r *Reader) admitted(namespace string, spec corev1.PodSpec) limited {
	out, err := admission.Limit(r.limitRanges.items, namespace, spec)
	return limited{out, err}
}

// defaultLimitRanges sets what the API server would, and sorts the LimitRanges by name.
func defaultLimitRanges(ranges []*corev1.LimitRange) {
	for _, l := range ranges {
		defaults.SetObjectDefaults_LimitRange(l)
	}
	slices.SortStableFunc(ranges, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
}

package gauges

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/internal/clip"
)

const (
	// longestValue is the maximum length of a label's value, in bytes. The longest that an ordinary object needs is a pod's owner: a path of
	// a namespace (63), a kind and a name (253).
	longestValue = 512
	// mostResources is the maximum number of resources of one Node, or of one NodePool, in metrics. A node with GPUs, EFA, huge pages and
	// volumes has about ten.
	mostResources = 16
	// mostConditions is the maximum number of conditions of one object in metrics. The kubelet writes five, node-problem-detector and the
	// EKS node monitoring agent about as many each.
	mostConditions = 32
)

// bounded returns a label's value as UTF-8 of at most longestValue bytes.
func bounded(value string) string {
	return clip.Bytes(value, longestValue)
}

func snake(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// Resources returns the resources of a list that metrics show: those with a non-zero amount, those of every node first, at most
// mostResources. A kubelet may report any number of extended resources.
func Resources(list corev1.ResourceList) []corev1.ResourceName {
	native := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods}
	names := slices.SortedFunc(maps.Keys(list), func(a, b corev1.ResourceName) int {
		first := func(name corev1.ResourceName) int {
			if i := slices.Index(native, name); i >= 0 {
				return i
			}
			return len(native)
		}
		return cmp.Or(first(a)-first(b), strings.Compare(string(a), string(b)))
	})
	names = slices.DeleteFunc(names, func(name corev1.ResourceName) bool {
		q := list[name]
		return q.IsZero()
	})
	return names[:min(len(names), mostResources)]
}

// amounts maps resources, by their names in metrics, to amounts.
type amounts map[string]float64

// amountsOf sums the named resources of a list. Two of them may have the same name in metrics, such as a-b and a_b.
func amountsOf(list corev1.ResourceList, names []corev1.ResourceName) amounts {
	out := amounts{}
	for _, name := range names {
		if q, ok := list[name]; ok && !q.IsZero() {
			out[bounded(snake(string(name)))] += q.AsApproximateFloat64()
		}
	}
	return out
}

func (a amounts) add(more amounts) {
	for name, amount := range more {
		a[name] += amount
	}
}

package gauges

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

const (
	// longestValue of a label, in bytes. The longest that an honest object needs is a pod's owner, a path of a namespace
	// (63), a kind and a name (253).
	longestValue = 512
	// mostResources of one Node, or of one NodePool, that metrics are about. A node with GPUs, EFA, huge pages and volumes
	// has about ten.
	mostResources = 16
	// mostConditions of one object that metrics are about. The kubelet writes five, node-problem-detector and the EKS node
	// monitoring agent about as many each.
	mostConditions = 32
)

// gauge returns a series of a bounded length: users, kubelets and agents write the values of its labels. A value that is
// not UTF-8 would make client_golang panic.
func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	for i := range labels {
		labels[i] = bounded(labels[i])
	}
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// bounded returns a label's value as UTF-8 of at most longestValue bytes.
func bounded(value string) string {
	value = value[:min(len(value), longestValue)]
	return strings.ToValidUTF8(value, "")
}

func snake(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// Resources returns which resources of a list metrics are about: those of which there is something, the ones that every
// node has first, at most mostResources. A kubelet may report any number of extended resources.
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

// amounts of resources by the names that metrics give them.
type amounts map[string]float64

// amountsOf sums the named resources of a list. Two of them may have one name in metrics, such as a-b and a_b.
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

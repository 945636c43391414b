package nodepool

import (
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/gauges"
)

// metrics have Karpenter's names.
type metrics struct{ usage, limit *prometheus.GaugeVec }

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "karpenter", Subsystem: "nodepools", Name: name, Help: help},
			[]string{"resource_type", "nodepool"})
	}
	m := &metrics{
		usage: gauge("usage", "Capacity of a NodePool's nodes, by resource."),
		limit: gauge("limit", "Limits of a NodePool, by resource."),
	}
	return m, errors.Join(r.Register(m.usage), r.Register(m.limit))
}

func (m *metrics) set(pool string, usage, limits corev1.ResourceList) {
	m.forget(pool)
	// Kubelets report the resources of nodes, with any number of names.
	reported := maps.Clone(usage)
	maps.DeleteFunc(reported, func(name corev1.ResourceName, _ resource.Quantity) bool { return slices.Contains(counted(), name) })
	for _, name := range append(gauges.Resources(reported), counted()...) {
		q := usage[name]
		m.usage.WithLabelValues(string(name), pool).Set(q.AsApproximateFloat64())
	}
	for name, q := range limits {
		m.limit.WithLabelValues(string(name), pool).Set(q.AsApproximateFloat64())
	}
}

func (m *metrics) forget(pool string) {
	m.usage.DeletePartialMatch(prometheus.Labels{"nodepool": pool})
	m.limit.DeletePartialMatch(prometheus.Labels{"nodepool": pool})
}

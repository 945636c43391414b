package nodepool

import (
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/gauges"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// metrics have Karpenter's names, but for paused, which Karpenter does not have.
type metrics struct{ usage, limit, paused *prometheus.GaugeVec }

func newMetrics(r prometheus.Registerer, leading func() bool) (*metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "karpenter", Subsystem: "nodepools", Name: name, Help: help},
			[]string{"resource_type", "nodepool"})
	}
	m := &metrics{
		usage: gauge("usage", "Capacity of a NodePool's nodes, by resource."),
		limit: gauge("limit", "Limits of a NodePool, by resource."),
		paused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "slipway_nodepool_disruption_paused", Help: "1 while the annotation slipway.dev/disruption-paused keeps a NodePool's nodes from voluntary disruption, 0 otherwise.",
		}, []string{"nodepool"}),
	}
	var err error
	for _, vec := range []*prometheus.GaugeVec{m.usage, m.limit, m.paused} {
		err = errors.Join(err, r.Register(leadership.WhileLeading(vec, leading)))
	}
	return m, err
}

func (m *metrics) setPaused(pool string, paused bool) {
	value := 0.0
	if paused {
		value = 1
	}
	m.paused.WithLabelValues(pool).Set(value)
}

func (m *metrics) set(pool string, usage, limits corev1.ResourceList) {
	m.forget(pool)
	// Kubelets report the resources of nodes, with any number of names.
	reported := maps.Clone(usage)
	maps.DeleteFunc(reported, func(name corev1.ResourceName, _ resource.Quantity) bool { return slices.Contains(counted(), name) })
	delete(reported, catalog.LimitUSD)
	names := append(gauges.Resources(reported), counted()...)
	if _, limited := usage[catalog.LimitUSD]; limited {
		names = append(names, catalog.LimitUSD)
	}
	for _, name := range names {
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
	m.paused.DeleteLabelValues(pool)
}

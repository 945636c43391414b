package health

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/launcher/leadership"
)

type metrics struct {
	failures, rejected *prometheus.CounterVec
	held               *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer, leading func() bool) (*metrics, error) {
	m := &metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_node_join_failures_total", Help: "Nodes that did not join, by NodePool and reason.",
		}, []string{"nodepool", "reason"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_prebind_rejected_total", Help: "Promised pods that a kubelet rejected, by NodePool and the kubelet's reason.",
		}, []string{"nodepool", "reason"}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "slipway_nodepool_held", Help: "Whether a NodePool launches nothing (1), or one node at a time (0.5), because its nodes do not join. Without a value while another replica leads.",
		}, []string{"nodepool"}),
	}
	for _, c := range []prometheus.Collector{m.failures, m.rejected, leadership.WhileLeading(m.held, leading)} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// nodeName is the launcher's own reason: the kubelet of a node that pods were bound to joined under another name.
const nodeName = "NodeName"

// preset makes the series of the usual failures and rejections, at 0. The increase of a series that begins at 2 is 0: two nodes that reject pods turn
// pre-binding off, and the alert would not fire; nor would that about a first wave of nodes of which none joins.
func (m *metrics) preset(pool string) {
	for _, reason := range []string{"registration_timeout", "readiness_timeout", "instance_failed"} {
		m.failures.WithLabelValues(pool, reason)
	}
	for _, reason := range []string{"OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "NodeAffinity", nodeName} {
		m.rejected.WithLabelValues(pool, reason)
	}
}

func (m *metrics) hold(pool string, g Gate) {
	value := 0.0
	switch {
	case g.Held:
		value = 1
	case g.OneAtATime:
		value = 0.5
	}
	m.held.WithLabelValues(pool).Set(value)
}

// forget removes the series of a deleted NodePool.
func (m *metrics) forget(pool string) {
	labels := prometheus.Labels{"nodepool": pool}
	m.failures.DeletePartialMatch(labels)
	m.rejected.DeletePartialMatch(labels)
	m.held.DeletePartialMatch(labels)
}

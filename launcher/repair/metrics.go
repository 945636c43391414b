package repair

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ unhealthy *prometheus.CounterVec }

// newMetrics registers the metrics with Karpenter's names and labels.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{unhealthy: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "nodeclaims", Name: "unhealthy_disrupted_total",
		Help: "NodeClaims terminated because their node was unhealthy, by condition.",
	}, []string{"condition", "nodepool", "capacity_type", "image_id"})}
	return m, r.Register(m.unhealthy)
}

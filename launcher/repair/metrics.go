package repair

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ unhealthy *prometheus.CounterVec }

// newMetrics registers what carries Karpenter's name and labels.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{unhealthy: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "nodeclaims", Name: "unhealthy_disrupted_total",
		Help: "NodeClaims that were ended because their node did not work, by the condition that said so.",
	}, []string{"condition", "nodepool", "capacity_type", "image_id"})}
	return m, r.Register(m.unhealthy)
}

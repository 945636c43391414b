package reclaim

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics carry Karpenter's names and labels.
type metrics struct {
	decisions *prometheus.CounterVec
	failed    *prometheus.CounterVec
	allowed   *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "karpenter", Subsystem: "voluntary_disruption", Name: "decisions_total",
			Help: "Disruption decisions that were carried out.",
		}, []string{"decision", "reason", "consolidation_type"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "karpenter", Subsystem: "voluntary_disruption", Name: "failed_validations_total",
			Help: "Empty nodes that were kept because the scheduler had something for them, or did not answer.",
		}, []string{"consolidation_type"}),
		allowed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "karpenter", Subsystem: "nodepools", Name: "allowed_disruptions",
			Help: "How many nodes of a NodePool may be disrupted at this moment.",
		}, []string{"nodepool", "reason"}),
	}
	m.decisions.WithLabelValues("delete", "empty", "empty")
	m.failed.WithLabelValues("empty")
	return m, errors.Join(r.Register(m.decisions), r.Register(m.failed), r.Register(m.allowed))
}

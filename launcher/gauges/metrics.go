package gauges

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	startup prometheus.Summary
	bound   prometheus.Histogram
	claims  *prometheus.CounterVec
	nodes   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		startup: prometheus.NewSummary(prometheus.SummaryOpts{
			Name: "karpenter_pods_startup_duration_seconds", Help: "Seconds from a pod's creation until it is ready.",
			Objectives: map[float64]float64{0: 0, 0.5: 0.05, 0.9: 0.01, 0.99: 0.001, 1: 0},
		}),
		bound: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "karpenter_pods_bound_duration_seconds", Help: "Seconds from a pod's creation until it is bound.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}),
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "karpenter_nodeclaims_created_total", Help: "NodeClaims that were created, by why, NodePool, and whether minValues were relaxed.",
		}, []string{"reason", "nodepool", "min_values_relaxed"}),
		nodes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "karpenter_nodes_created_total", Help: "Nodes that registered, by NodePool and zone.",
		}, []string{"nodepool", "zone"}),
	}
	return m, errors.Join(r.Register(m.startup), r.Register(m.bound), r.Register(m.claims), r.Register(m.nodes))
}

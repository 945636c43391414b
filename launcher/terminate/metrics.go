package terminate

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have Karpenter's names and labels: dashboards and alerts match on them.
type metrics struct {
	disrupted        *prometheus.CounterVec
	claims           *prometheus.CounterVec
	nodes            *prometheus.CounterVec
	drained          *prometheus.CounterVec
	podsDrained      *prometheus.CounterVec
	evictions        *prometheus.CounterVec
	claimDuration    *prometheus.HistogramVec
	instanceDuration *prometheus.HistogramVec
	nodeDuration     *prometheus.SummaryVec
	lifetime         *prometheus.HistogramVec
	ahead            *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "karpenter", Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	histogram := func(subsystem, name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "karpenter", Subsystem: subsystem, Name: name, Help: help, Buckets: buckets,
		}, []string{"nodepool"})
	}
	m := &metrics{
		disrupted:        counter("nodeclaims", "disrupted_total", "NodeClaims whose termination the launcher began, by reason.", "reason", "nodepool", "capacity_type"),
		claims:           counter("nodeclaims", "terminated_total", "NodeClaims that ended.", "nodepool", "capacity_type", "zone"),
		nodes:            counter("nodes", "terminated_total", "Nodes that ended.", "nodepool", "zone"),
		drained:          counter("nodes", "drained_total", "Nodes that were drained.", "nodepool"),
		podsDrained:      counter("pods", "drained_total", "Pods evicted or deleted by a drain, by the reason of their node's end; Forceful Termination if the launcher did not begin it.", "reason"),
		evictions:        counter("pods", "eviction_requests_total", "Eviction requests, by response code; one that succeeds counts as 200.", "code"),
		claimDuration:    histogram("nodeclaims", "termination_duration_seconds", "From the deletion of a NodeClaim to its end.", prometheus.ExponentialBuckets(1, 2, 12)),
		instanceDuration: histogram("nodeclaims", "instance_termination_duration_seconds", "From the first TerminateInstances to the terminated state.", prometheus.ExponentialBuckets(1, 2, 11)),
		lifetime:         histogram("nodes", "lifetime_duration_seconds", "Age of Nodes at their end.", prometheus.ExponentialBuckets(60, 2, 16)),
		nodeDuration: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Namespace: "karpenter", Subsystem: "nodes", Name: "termination_duration_seconds",
			Help:       "From the deletion of a Node to the removal of its finalizer.",
			Objectives: map[float64]float64{0: 0.01, 0.5: 0.01, 0.9: 0.01, 0.99: 0.01, 1: 0.01},
		}, []string{"nodepool"}),
	}
	m.ahead = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "slipway", Name: "replacements_total",
		Help: "Nodes whose pods may be evicted, by the state of the pods' room when the first may be.",
	}, []string{"outcome"})
	for _, outcome := range []string{aheadUnneeded, aheadRoom, aheadNone, aheadReady, aheadLaunched, aheadLaunching, aheadUnanswered} {
		m.ahead.WithLabelValues(outcome)
	}
	for _, code := range []string{evicted, "404", "409", "429", "500"} {
		m.evictions.WithLabelValues(code)
	}
	return m, errors.Join(r.Register(m.disrupted), r.Register(m.claims), r.Register(m.nodes), r.Register(m.drained),
		r.Register(m.podsDrained), r.Register(m.evictions), r.Register(m.claimDuration), r.Register(m.instanceDuration),
		r.Register(m.nodeDuration), r.Register(m.lifetime), r.Register(m.ahead))
}

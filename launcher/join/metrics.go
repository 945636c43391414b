package join

import (
	"github.com/prometheus/client_golang/prometheus"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/record"
)

type metrics struct {
	bound   *prometheus.CounterVec
	refused prometheus.Counter
	seconds *prometheus.HistogramVec
	saved   *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		bound: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_prebound_pods_total", Help: "Pods bound by the launcher ahead of the scheduling queue, by moment.",
		}, []string{"moment"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_prebind_refused_total", Help: "Promised pods that the Node as it is would not run.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slipway_nodeclaim_initialized_seconds", Help: "Seconds from a NodeClaim's creation until its node is initialized.",
			Buckets: []float64{5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900},
		}, []string{"nodepool"}),
		saved: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "slipway_prebind_saved_seconds",
			Help:    "Seconds from a pod's binding by the launcher until its node's taints, slipway's own aside, would have let the scheduler bind it.",
			Buckets: []float64{0, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160},
		}, []string{"moment"}),
	}
	for _, moment := range []bind.Moment{bind.Launch, bind.Ready} {
		m.bound.WithLabelValues(string(moment))
		m.saved.WithLabelValues(string(moment))
	}
	for _, c := range []prometheus.Collector{m.bound, m.refused, m.seconds, m.saved} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) joined(o Observed) {
	if record.StandbyOf(o.Claim).Buffer != "" {
		return // It slept in between.
	}
	m.seconds.WithLabelValues(o.Claim.Labels[karpv1.NodePoolLabelKey]).Observe(o.Now.Sub(o.Claim.CreationTimestamp.Time).Seconds())
}

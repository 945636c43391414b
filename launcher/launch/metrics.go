package launch

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	launched *prometheus.CounterVec
	failures *prometheus.CounterVec
	errors   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		launched: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_launches_total", Help: "Instances launched for NodeClaims, by NodePool.",
		}, []string{"nodepool"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_offering_failures_total", Help: "Offerings that gave no instance, by EC2's error code.",
		}, []string{"reason"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_launch_errors_total", Help: "Launch attempts that ended in an error and were tried again.",
		}),
	}
	for _, c := range []prometheus.Collector{m.launched, m.failures, m.errors} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

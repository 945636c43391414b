package launch

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// causeClass is the cause of a failure without a call to EC2: the class is not ready.
const causeClass cloud.Cause = "class"

type metrics struct {
	launched *prometheus.CounterVec
	failures *prometheus.CounterVec
	errors   prometheus.Counter
	causes   *prometheus.CounterVec
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
		causes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_launch_failures_total", Help: "Calls of CreateFleet that gave less than was asked for, by cause.",
		}, []string{"cause"}),
	}
	for _, cause := range []cloud.Cause{
		cloud.CauseCapacity, cloud.CauseQuota, cloud.CauseSpotRole, cloud.CauseUnauthorized, cloud.CauseInvalid,
		cloud.CauseTemplateGone, cloud.CauseUnknown, cloud.CauseThrottled, cloud.CauseTransient, causeClass,
	} {
		m.causes.WithLabelValues(string(cause))
	}
	for _, c := range []prometheus.Collector{m.launched, m.failures, m.errors, m.causes} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

package standby

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of label result.
const (
	resultStarted  = "started"
	resultKept     = "kept"
	resultCapacity = "no_capacity"
	resultFailed   = "failed"
)

// metrics of standby buffers.
type metrics struct {
	stops *prometheus.CounterVec
	wakes *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		stops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_standby_stops_total", Help: "Instances that were stopped for a standby buffer, by NodePool.",
		}, []string{"nodepool"}),
		wakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_standby_wakes_total",
			Help: "Instances of standby buffers that a pod was promised, by NodePool and by what came of it: started, kept (it was not stopped yet), no_capacity, failed.",
		}, []string{"nodepool", "result"}),
	}
	return m, errors.Join(registerer.Register(m.stops), registerer.Register(m.wakes))
}

package announce

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ dropped prometheus.Counter }

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{dropped: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "slipway_events_dropped_total", Help: "Events that were not written: the API server refused them, or did not take them for long.",
	})}
	return m, r.Register(m.dropped)
}

package leadership

import "github.com/prometheus/client_golang/prometheus"

// WhileLeading returns a collector that has the metrics of c while leading reports true. Another replica has them otherwise, and the last values of
// this one would stay.
func WhileLeading(c prometheus.Collector, leading func() bool) prometheus.Collector {
	return &gatedMetrics{c, leading}
}

type gatedMetrics struct {
	prometheus.Collector
	leading func() bool
}

// Collect implements prometheus.Collector.
func (g *gatedMetrics) Collect(to chan<- prometheus.Metric) {
	if g.leading() {
		g.Collector.Collect(to)
	}
}

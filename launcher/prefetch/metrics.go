package prefetch

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ images *prometheus.CounterVec }

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{images: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_prefetch_images_total", Help: "Images of promised pods of booting nodes, by what became of them.",
	}, []string{"outcome"})}
	for _, o := range []Outcome{Listed, PullSecret, Unreadable, Surplus} {
		m.images.WithLabelValues(string(o))
	}
	return m, registerer.Register(m.images)
}

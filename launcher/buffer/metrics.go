package buffer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// The values of the label state. Buffers have no labels of their own: their names are tenants'.
const (
	stateWanted   = "wanted"
	stateExisting = "existing"
	stateInFlight = "in_flight"
	stateMissing  = "missing"
)

type metrics struct{ pods *prometheus.GaugeVec }

func newMetrics(registerer prometheus.Registerer, leading func() bool) (*metrics, error) {
	m := &metrics{pods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_capacity_buffer_pods", Help: "Pods of all CapacityBuffers, by whether they have room on nodes that are initialized, in flight, or none; wanted is their sum. Without a value while another replica leads.",
	}, []string{"state"})}
	m.set(0, 0, 0)
	return m, registerer.Register(leadership.WhileLeading(m.pods, leading))
}

func (m *metrics) set(wanted, existing, inFlight int) {
	for state, n := range map[string]int{
		stateWanted: wanted, stateExisting: existing, stateInFlight: inFlight, stateMissing: max(wanted-existing-inFlight, 0),
	} {
		m.pods.WithLabelValues(state).Set(float64(n))
	}
}

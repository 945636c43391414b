package plugin

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// What plans, under Karpenter's names of its controllers.
const (
	controllerProvisioner = "provisioner"
	controllerDisruption  = "disruption"
)

// simulations exports planning under the names that Karpenter has for its scheduling simulations: a plan is the counterpart of one. It is safe for concurrent use.
type simulations struct {
	// seconds is registered beside the collector, which computes gauges alone.
	seconds           *prometheus.HistogramVec
	depth, unfinished *prometheus.Desc

	mu      sync.Mutex
	running map[string][]running
}

// running is one plan that is being made.
type running struct {
	since time.Time
	pods  int
}

func newSimulations() *simulations {
	labels := []string{"controller"}
	s := &simulations{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "karpenter_scheduler_scheduling_duration_seconds", Help: "Seconds that planning took, for pending pods (provisioner) or pods of nodes that go (disruption).",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}, labels),
		depth:      prometheus.NewDesc("karpenter_scheduler_queue_depth", "Pods that are being planned now.", labels, nil),
		unfinished: prometheus.NewDesc("karpenter_scheduler_unfinished_work_seconds", "Seconds since planning that goes on began.", labels, nil),
		running:    map[string][]running{controllerProvisioner: nil, controllerDisruption: nil},
	}
	for controller := range s.running {
		s.seconds.WithLabelValues(controller)
	}
	return s
}

// controllerOf returns which of Karpenter's controllers would plan for the purpose.
func controllerOf(of purpose) string {
	if of.pending() || of.kind == api.Purpose_PURPOSE_BUFFER {
		return controllerProvisioner
	}
	return controllerDisruption
}

// begin records that planning begins. The function that it returns records the end.
func (s *simulations) begin(of purpose, pods int) func() {
	controller := controllerOf(of)
	now := running{since: time.Now(), pods: pods}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[controller] = append(s.running[controller], now)
	return func() {
		s.seconds.WithLabelValues(controller).Observe(time.Since(now.since).Seconds())
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, r := range s.running[controller] {
			if r == now {
				s.running[controller] = append(s.running[controller][:i:i], s.running[controller][i+1:]...)
				return
			}
		}
	}
}

// Describe implements prometheus.Collector.
func (s *simulations) Describe(to chan<- *prometheus.Desc) {
	to <- s.depth
	to <- s.unfinished
}

// Collect implements prometheus.Collector.
func (s *simulations) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for controller, all := range s.running {
		pods, seconds := 0, 0.0
		for _, r := range all {
			pods += r.pods
			seconds += time.Since(r.since).Seconds()
		}
		to <- prometheus.MustNewConstMetric(s.depth, prometheus.GaugeValue, float64(pods), controller)
		to <- prometheus.MustNewConstMetric(s.unfinished, prometheus.GaugeValue, seconds, controller)
	}
}

package interrupt

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// unreadable is the message type under which unparsable bodies are counted.
const unreadable = "unreadable"

// metrics have Karpenter's names where it has one.
type metrics struct {
	received *prometheus.CounterVec
	deleted  prometheus.Counter
	latency  prometheus.Histogram
	errors   prometheus.Counter
	up       prometheus.Gauge
	// unhealthy is labelled by the category of the status.
	unhealthy *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, leading func() bool) (*metrics, error) {
	m := &metrics{
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "karpenter", Subsystem: "interruption", Name: "received_messages_total", Help: "Messages received, by type.",
		}, []string{"message_type"}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "karpenter", Subsystem: "interruption", Name: "deleted_messages_total", Help: "Messages deleted.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "karpenter", Subsystem: "interruption", Name: "message_queue_duration_seconds",
			Help: "From the event to the end of its message.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}),
	}
	m.errors = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "slipway", Subsystem: "interruption", Name: "queue_errors_total", Help: "Calls of the queue that failed.",
	})
	m.up = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "slipway", Subsystem: "interruption", Name: "queue_up", Help: "1 if the last call of the queue succeeded, or there is none. Without a value while another replica leads.",
	})
	m.unhealthy = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "interruption", Name: "instance_status_unhealthy_total",
		Help: "Instances terminated because EC2 reports them as impaired or has scheduled an event.",
	}, []string{"category"})
	for _, reason := range []string{reasonSystem, reasonInstance, reasonEvent} {
		m.unhealthy.WithLabelValues(categoryOf(reason))
	}
	for _, kind := range []cloud.MessageKind{
		cloud.SpotInterrupted, cloud.RebalanceRecommendation, cloud.CapacityReservation, cloud.ScheduledChange,
		cloud.InstanceStopped, cloud.InstanceTerminated, cloud.NoOp, unreadable,
	} {
		m.received.WithLabelValues(string(kind))
	}
	return m, errors.Join(r.Register(m.received), r.Register(m.deleted), r.Register(m.latency), r.Register(m.errors),
		r.Register(leadership.WhileLeading(m.up, leading)), r.Register(m.unhealthy))
}

package plugin

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/hooks"
	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
	"github.com/slipway-k8s/slipway/plugin/incremental/spread"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// The outcomes of a planned pod, for the metric.
const (
	outcomeLaunched = "launched"
	outcomeInFlight = "in_flight"
	outcomeExisting = "existing"
	outcomeUnplaced = "unplaced"
	outcomeRefused  = "refused"
	outcomeAside    = "set_aside"
	outcomeDelayed  = "delayed"
)

// metrics of the plugin.
type metrics struct {
	batches         *prometheus.CounterVec
	batchSize       prometheus.Histogram
	planSeconds     prometheus.Histogram
	rounds          prometheus.Histogram
	pods            *prometheus.CounterVec
	promises        prometheus.Gauge
	probation       prometheus.Gauge
	asleep          prometheus.Gauge
	connected       prometheus.Gauge
	versions        *prometheus.GaugeVec
	trips           *prometheus.CounterVec
	panics          *prometheus.CounterVec
	released        *prometheus.CounterVec
	answers         prometheus.Counter
	hinted          prometheus.Counter
	replacementPods prometheus.Counter
	// uselessLaunches and delayedOwners are of launches whose pods never ran on their node. delayedOwners counts gangs as well.
	uselessLaunches prometheus.Counter
	delayedOwners   prometheus.Gauge
	cutShort        *prometheus.CounterVec
	simulations     *simulations
	expected        prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		return nil, errors.New("plugin: Registerer is required")
	}
	m := &metrics{
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_batches_total", Help: "Batches of pods that were planned, by why they closed.",
		}, []string{"reason"}),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_batch_pods", Help: "Pods in a batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		planSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_plan_duration_seconds", Help: "Seconds that planning and verifying a batch took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
		}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_plan_rounds", Help: "Plans made for a batch until the filters agreed.",
			Buckets: prometheus.LinearBuckets(1, 1, 11),
		}),
		pods: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_planned_pods_total", Help: "Pods that were planned, by outcome.",
		}, []string{"outcome"}),
		promises: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "slipway_promised_pods", Help: "Pods that have a slot on a node that is coming.",
		}),
		probation: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "slipway_offerings_on_probation", Help: "Offerings of which a launch failed lately for want of capacity: only pods that nothing else can run try them.",
		}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "slipway_launcher_connected", Help: "1 while the launcher's catalog is received.",
		}),
		versions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "slipway_protocol_info",
			Help: "1 for the versions of the contract that the launcher and the scheduler speak. With skew major nothing is launched or moved.",
		}, []string{"launcher", "scheduler", "skew"}),
		trips: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_hook_trips_total", Help: "Times a hook on the scheduler, or what a plugin remembers, was switched off for ten minutes, as it failed.",
		}, []string{"hook"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_plugin_panics_total", Help: "Panics that were recovered, by entry point.",
		}, []string{"point"}),
		released: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_released_pods_total", Help: "Pods that were let go of their promise, by why.",
		}, []string{"reason"}),
		answers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_class_answers_total", Help: "Pods for which another of their class had failed a moment ago, with nothing changed since: not tried on the nodes.",
		}),
		hinted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_hinted_pods_total", Help: "Pods that were placed on one of the nodes that were best for another of their class, without a look at all nodes.",
		}),
		replacementPods: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_replacement_pods_total", Help: "Replacement pods that were scheduled into the room reserved for a pod of a node that terminates.",
		}),
		uselessLaunches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_useless_launches_total", Help: "NodeClaims whose node ran none of the pods that it was launched for.",
		}),
		delayedOwners: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "slipway_delayed_owners", Help: "Owners of pods and gangs for which nothing is launched for a while, since their last launches were useless.",
		}),
		cutShort: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_plans_cut_short_total", Help: "Plans that ran out of time and were used as far as they were verified, for pending pods (provisioner) or pods of nodes that go (disruption).",
		}, []string{"controller"}),
		simulations: newSimulations(), asleep: newAsleep(),
		expected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_expected_pods_total", Help: "Pods that Deployments were expected to add, for which launched nodes have room beside the pods they were launched for.",
		}),
	}
	for _, c := range []prometheus.Collector{
		m.batches, m.batchSize, m.planSeconds, m.rounds, m.pods, m.promises, m.probation, m.asleep, m.connected, m.versions, m.trips, m.panics, m.released, m.answers, m.hinted,
		m.replacementPods, m.uselessLaunches, m.delayedOwners, m.cutShort, m.simulations, m.simulations.seconds, m.expected,
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("plugin metrics: %w", err)
		}
	}
	m.preset()
	return m, nil
}

// preset makes the series of labels whose values are known, at 0: an alert on their increase would not see the first event of a series that
// begins with it.
func (m *metrics) preset() {
	for _, o := range []string{outcomeLaunched, outcomeInFlight, outcomeExisting, outcomeUnplaced, outcomeRefused, outcomeAside, outcomeDelayed} {
		m.pods.WithLabelValues(o)
	}
	for _, controller := range []string{controllerProvisioner, controllerDisruption} {
		m.cutShort.WithLabelValues(controller)
	}
	for _, hook := range []string{hooks.NextPod, hooks.SchedulePod, hooks.FailureHandler, affinity.Name, spread.Name} {
		m.trips.WithLabelValues(hook)
	}
	for _, point := range points() {
		m.panics.WithLabelValues(point)
	}
}

// panicked counts a recovered panic of an entry point, and logs it.
func (m *metrics) panicked(logger klog.Logger, point string, cause any) {
	m.panics.WithLabelValues(point).Inc()
	logger.Error(nil, "The plugin panicked, the rest goes on without it", "point", point, "panic", cause)
}

// connection shows whether the launcher's catalog is received, and the versions of the contract once the launcher's is known.
func (m *metrics) connection(c link.Connection) {
	value := 0.0
	if c.Up {
		value = 1
	}
	m.connected.Set(value)
	if c.Launcher != "" {
		m.versions.Reset()
		m.versions.WithLabelValues(c.Launcher, api.OwnVersion().Text(), string(c.Skew)).Set(1)
	}
}

// release counts promises that were released, by why, and shows how many the table has left.
func (m *metrics) release(why string, released []promise.Promise, left *promise.Table) {
	if n := len(released); n > 0 {
		m.released.WithLabelValues(why).Add(float64(n))
	}
	m.promises.Set(float64(left.Len()))
}

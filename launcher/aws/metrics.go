package aws

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// metrics are Karpenter's karpenter_cloudprovider_* metrics where they fit, with their names and labels.
type metrics struct {
	duration    *prometheus.HistogramVec
	errors      *prometheus.CounterVec
	cores       *prometheus.GaugeVec
	memory      *prometheus.GaugeVec
	price       *prometheus.GaugeVec
	available   *prometheus.GaugeVec
	launchFails *prometheus.CounterVec
	throttled   *prometheus.CounterVec
	// refreshFails and refreshedAt are slipway's own. They show how old AWS's answers are.
	refreshFails *prometheus.CounterVec
	refreshedAt  *prometheus.GaugeVec
	builtin      prometheus.Gauge
	shifted      *prometheus.GaugeVec
	builtinRates *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	const namespace, subsystem = "karpenter", "cloudprovider"
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "duration_seconds", Help: "Duration of cloud provider method calls.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}, []string{"controller", "method", "provider"}),
		errors: counter("errors_total", "Errors returned from cloud provider method calls.", "controller", "method", "provider", "error"),
		cores:  gauge("instance_type_cpu_cores", "VCPUs cores for a given instance type.", "instance_type"),
		memory: gauge("instance_type_memory_bytes", "Memory, in bytes, for a given instance type.", "instance_type"),
		price: gauge("instance_type_offering_price_estimate",
			"Estimated hourly price of an offering.", "instance_type", "capacity_type", "zone"),
		available: gauge("instance_type_offering_available",
			"Whether an offering is believed to have capacity.", "instance_type", "capacity_type", "zone"),
		launchFails: counter("instance_launch_failures_total",
			"CreateFleet failures by offering.", "zone", "zone_id", "capacity_type", "reason"),
	}
	m.refreshFails = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_aws_refresh_failures_total", Help: "Times that a part of what AWS offers could not be refreshed; its last answer stays in use.",
	}, []string{"part"})
	m.refreshedAt = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_aws_refreshed_timestamp_seconds", Help: "When AWS last answered about a part of what it offers.",
	}, []string{"part"})
	m.builtin = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slipway_aws_builtin_prices", Help: "1 while the built-in on-demand prices are used because the Price List API has none.",
	})
	m.shifted = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_aws_zonal_shift", Help: "1 while a zonal shift of the cluster away from the zone is in effect.",
	}, []string{"zone_id"})
	m.builtinRates = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_aws_builtin_charges", Help: "1 while the built-in price of a usage type is used: of volumes, public IPv4 addresses and CPU credits.",
	}, []string{"usage_type"})
	m.charges(catalog.UsageTypes()) // Until AWS answers.
	for _, part := range []string{partTypes, partOnDemand, partDedicated, partSpot, partCharges} {
		m.refreshFails.WithLabelValues(part)
	}
	m.throttled = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_aws_throttle_seconds_total", Help: "Seconds that calls waited to stay inside EC2's request limits, by action.",
	}, []string{"action"})
	if registerer == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.duration, m.errors, m.cores, m.memory, m.price, m.available, m.launchFails, m.refreshFails, m.refreshedAt, m.builtin, m.shifted, m.builtinRates, m.throttled} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("aws: registering metrics: %w", err)
		}
	}
	return m, nil
}

// refreshed counts one refresh of a part, and returns its error. Spot prices that EC2 does not have for the launcher are not counted.
func (m *metrics) refreshed(part string, err error) error {
	switch {
	case err == nil:
		m.refreshedAt.WithLabelValues(part).SetToCurrentTime()
	case !errors.Is(err, context.Canceled) && !isNoSpot(err):
		m.refreshFails.WithLabelValues(part).Inc()
	}
	return err
}

// charges sets which usage types have built-in prices.
func (m *metrics) charges(builtin []string) {
	for _, usage := range catalog.UsageTypes() {
		m.builtinRates.WithLabelValues(usage).Set(0)
	}
	for _, usage := range builtin {
		m.builtinRates.WithLabelValues(usage).Set(1)
	}
}

func (m *metrics) waited(action string, d time.Duration) {
	m.throttled.WithLabelValues(action).Add(d.Seconds())
}

// measure starts the timer of a method and returns the function that stops it.
func (m *metrics) measure(method string) func(*error) {
	start := time.Now()
	return func(err *error) {
		m.duration.WithLabelValues("", method, "aws").Observe(time.Since(start).Seconds())
		if *err != nil {
			m.errors.WithLabelValues("", method, "aws", errorLabel(*err)).Inc()
		}
	}
}

// errorLabel returns Karpenter's name for an error's type.
func errorLabel(err error) string {
	_, class := cloud.IsNodeClass(err)
	switch {
	case class:
		return "NodeClassNotReadyError"
	case cloud.IsNotFound(err):
		return "NodeClaimNotFoundError"
	}
	return ""
}

func (m *metrics) types(known market) {
	m.cores.Reset() // Series of types that EC2 no longer offers are removed.
	m.memory.Reset()
	for name, f := range known.facts {
		m.cores.WithLabelValues(name).Set(float64(f.VCPUs))
		m.memory.WithLabelValues(name).Set(float64(f.MemoryMiB << 20))
	}
}

// offerings writes only what changed: rewriting about 5,000 series with each answer costs more than the answer.
func (m *metrics) offerings(change offersChange) {
	for _, k := range change.gone {
		m.price.DeleteLabelValues(k.instanceType, k.capacityType, k.zone)
		m.available.DeleteLabelValues(k.instanceType, k.capacityType, k.zone)
	}
	for _, o := range change.set {
		m.price.WithLabelValues(o.instanceType, o.CapacityType, o.Zone).Set(o.Price)
		available := 0.0
		if o.Available {
			available = 1
		}
		m.available.WithLabelValues(o.instanceType, o.CapacityType, o.Zone).Set(available)
	}
}

func (m *metrics) launchFailures(failures []fleetFailure) {
	for _, f := range failures {
		m.launchFails.WithLabelValues(f.Option.Zone, f.zoneID, f.Option.CapacityType, string(f.Reason)).Inc()
	}
}

// shifts sets the gauges of zones.
func (m *metrics) shifts(begun, ended []string) {
	for _, id := range begun {
		m.shifted.WithLabelValues(id).Set(1)
	}
	for _, id := range ended {
		m.shifted.DeleteLabelValues(id)
	}
}

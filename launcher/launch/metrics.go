package launch

import (
	"cmp"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// causeClass is the cause of a failure without a call to EC2: the class is not ready.
const causeClass cloud.Cause = "class"

// otherError is the code of an error that is not AWS's, as a label.
const otherError ec2error.Code = "other"

type metrics struct {
	launched *prometheus.CounterVec
	failures *prometheus.CounterVec
	errors   *prometheus.CounterVec
	causes   *prometheus.CounterVec
	codes    *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer, leading func() bool) (*metrics, error) {
	m := &metrics{
		launched: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_launches_total", Help: "Instances launched for NodeClaims, by NodePool.",
		}, []string{"nodepool"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_offering_failures_total", Help: "Offerings that gave no instance, by EC2's error code.",
		}, []string{"reason"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_launch_errors_total", Help: "Launch attempts that ended in an error and were tried again, by its code.",
		}, []string{"code"}),
		causes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_launch_failures_total", Help: "Calls of CreateFleet that gave less than was asked for, by cause.",
		}, []string{"cause"}),
		codes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_launch_refusals_total", Help: "Launch attempts that EC2 did not fulfill, without those that slipway_launch_errors_total has, by its error code; one with several codes counts for each.",
		}, []string{"code"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "slipway_launches_waiting", Help: "NodeClaims whose launch ends in errors and is tried again, by the last error code.",
		}, []string{"code"}),
	}
	for _, cause := range []cloud.Cause{
		cloud.CauseCapacity, cloud.CauseQuota, cloud.CauseSpotRole, cloud.CauseUnauthorized, cloud.CauseInvalid,
		cloud.CauseTemplateGone, cloud.CauseUnknown, cloud.CauseThrottled, cloud.CauseTransient, causeClass,
	} {
		m.causes.WithLabelValues(string(cause))
	}
	// The increase of a series that begins at 1 is 0: the first error of these codes would be missing from the alerts.
	for _, code := range []ec2error.Code{
		ec2error.RequestLimitExceeded, ec2error.InternalError, ec2error.ServiceUnavailable, ec2error.NoAnswer, otherError,
	} {
		m.errors.WithLabelValues(string(code))
	}
	for _, code := range []ec2error.Code{
		ec2error.VcpuLimitExceeded, ec2error.MaxSpotInstanceCountExceeded, ec2error.SpotServiceLinkedRole, ec2error.UnauthorizedOperation,
		ec2error.InsufficientFreeAddressesInSubnet, ec2error.InsufficientCidrBlocks,
	} {
		m.codes.WithLabelValues(string(code))
	}
	for _, code := range []ec2error.Code{
		ec2error.InsufficientInstanceCapacity, ec2error.UnfulfillableCapacity, ec2error.InsufficientFreeAddressesInSubnet, ec2error.InsufficientCidrBlocks,
	} {
		m.failures.WithLabelValues(string(code))
	}
	for _, c := range []prometheus.Collector{m.launched, m.failures, m.errors, m.causes, m.codes, leadership.WhileLeading(m.waiting, leading)} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// waits keeps the gauge of waiting claims. It is safe for concurrent use.
type waits struct {
	gauge *prometheus.GaugeVec

	mu      sync.Mutex
	byGroup map[any]waiting
}

// waiting is how many claims of a group wait, and the code of the last error; otherError for one that is not AWS's.
type waiting struct {
	code   string
	claims int
}

func newWaits(gauge *prometheus.GaugeVec) *waits {
	return &waits{gauge: gauge, byGroup: map[any]waiting{}}
}

// set replaces what a group, named by any comparable value, waits for; with no claims it waits for nothing. A code that nothing waits for has no series.
func (w *waits) set(group any, code ec2error.Code, claims int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, had := w.byGroup[group]
	next := waiting{string(cmp.Or(code, otherError)), claims}
	if claims == 0 {
		delete(w.byGroup, group)
	} else {
		w.byGroup[group] = next
	}
	if !had && claims == 0 {
		return
	}
	sums := map[string]int{}
	for _, of := range w.byGroup {
		sums[of.code] += of.claims
	}
	for _, code := range []string{before.code, next.code} {
		if sums[code] == 0 {
			w.gauge.DeleteLabelValues(code)
			continue
		}
		w.gauge.WithLabelValues(code).Set(float64(sums[code]))
	}
}

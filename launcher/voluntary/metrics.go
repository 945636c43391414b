package voluntary

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// within bounds one scrape of the budgets: the cache may not be filled yet.
const within = 5 * time.Second

// The decisions, as Karpenter names them.
const (
	// Delete removes nodes without new ones for their pods.
	Delete = "delete"
	// Replace launches nodes for the pods first.
	Replace = "replace"
)

// Metrics have Karpenter's names and labels. Their methods may be called concurrently.
type Metrics struct {
	decisions, byPool, queueFailures, validations *prometheus.CounterVec
	eligible                                      *prometheus.GaugeVec
	unlooked                                      prometheus.Gauge
	evaluation                                    *prometheus.HistogramVec
	// These are for consolidation only.
	timeouts, moves *prometheus.CounterVec
	score           *prometheus.HistogramVec
}

// NewMetrics registers them, with those of the ledger's budgets. These and the eligible nodes have values while leading.
func NewMetrics(r prometheus.Registerer, ledger *budget.Ledger, leading func() bool) (*Metrics, error) {
	if r == nil || ledger == nil || leading == nil {
		return nil, errors.New("voluntary: a Registerer, a Ledger and whether we lead are required")
	}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "karpenter", Subsystem: "voluntary_disruption", Name: name, Help: help}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
	}
	m := &Metrics{
		decisions:     counter("decisions_total", "Disruption decisions that were carried out.", "decision", "reason", "consolidation_type"),
		byPool:        counter("decisions_by_nodepool_total", "Disruption decisions that were carried out, by NodePool.", "nodepool", "decision", "reason", "consolidation_type"),
		queueFailures: counter("queue_failures_total", "Disruption decisions that were called off after they had begun.", "decision", "reason", "consolidation_type"),
		validations:   counter("failed_validations_total", "Nodes that were kept because the last look before their disruption found something against it.", "consolidation_type"),
		eligible: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("eligible_nodes",
			"Nodes that may be disrupted as far as they and their pods are concerned, by reason. Without a value while another replica leads.")), []string{"reason"}),
		evaluation: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "karpenter", Subsystem: "voluntary_disruption", Name: "decision_evaluation_duration_seconds",
			Help: "How long it took to decide which nodes to disrupt.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}, []string{"reason", "consolidation_type"}),
	}
	m.unlooked = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "slipway", Name: "consolidation_oldest_look_seconds",
		Help: "How long ago consolidation looked at the node that has waited longest: decided about it, or found what keeps it. 0 while another replica leads.",
	})
	judged := []string{"decision", "nodepool", "policy"}
	m.timeouts = counter("consolidation_timeouts_total", "Consolidation decisions that time ran out for: what had been found until then was carried out.", "consolidation_type")
	m.moves = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Name: "consolidation_moves_total",
		Help: "Moves that would have paid, by each NodePool that they take nodes from: approved, or rejected by its consolidationPolicy Balanced.",
	}, judged)
	m.score = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "karpenter", Name: "consolidation_score", Buckets: []float64{0.1, 0.25, 0.33, 0.5, 1, 2, 5, 10},
		Help: "Scores of moves in NodePools with consolidationPolicy Balanced: the share of the cost that they save by the share of the disruption that they are.",
	}, judged)
	for _, kind := range []string{"multi", "single"} {
		m.timeouts.WithLabelValues(kind)
	}
	m.decisions.WithLabelValues(Delete, "empty", "empty")
	m.validations.WithLabelValues("empty")
	for _, reason := range []string{"drifted", "expired"} {
		m.decisions.WithLabelValues(Delete, reason, "")
		m.decisions.WithLabelValues(Replace, reason, "")
	}
	for _, reason := range disruption.BudgetReasons() {
		m.eligible.WithLabelValues(strings.ToLower(string(reason)))
	}
	budgets := &budgets{
		ledger: ledger, leading: leading,
		allowed:   prometheus.NewDesc("karpenter_nodepools_allowed_disruptions", "How many nodes of a NodePool may be disrupted at the same time, now.", []string{"nodepool", "reason"}, nil),
		consuming: prometheus.NewDesc("karpenter_nodepools_nodes_consuming_budgets", "How many nodes of a NodePool are disrupted now, or not ready.", []string{"nodepool", "reason"}, nil),
	}
	return m, errors.Join(r.Register(m.decisions), r.Register(m.byPool), r.Register(m.queueFailures), r.Register(m.validations),
		r.Register(leadership.WhileLeading(m.eligible, leading)), r.Register(m.evaluation), r.Register(m.timeouts), r.Register(m.moves), r.Register(m.score), r.Register(m.unlooked), r.Register(budgets))
}

// Decided counts an executed decision: Delete or Replace, for a reason in Karpenter's label format, lower case.
func (m *Metrics) Decided(pool, decision, reason, consolidationType string) {
	m.decisions.WithLabelValues(decision, reason, consolidationType).Inc()
	m.byPool.WithLabelValues(pool, decision, reason, consolidationType).Inc()
}

// QueueFailed counts a decision that was canceled after it had begun.
func (m *Metrics) QueueFailed(decision, reason, consolidationType string) {
	m.queueFailures.WithLabelValues(decision, reason, consolidationType).Inc()
}

// ValidationFailed counts a node that was kept at the last check.
func (m *Metrics) ValidationFailed(consolidationType string) {
	m.validations.WithLabelValues(consolidationType).Inc()
}

// Eligible sets how many nodes could be disrupted for a reason.
func (m *Metrics) Eligible(reason string, nodes int) {
	m.eligible.WithLabelValues(reason).Set(float64(nodes))
}

// Looked sets how long ago consolidation looked at the node that has waited longest.
func (m *Metrics) Looked(oldest time.Duration) { m.unlooked.Set(oldest.Seconds()) }

// Evaluated records how long a decision took.
func (m *Metrics) Evaluated(reason, consolidationType string, took time.Duration) {
	m.evaluation.WithLabelValues(reason, consolidationType).Observe(took.Seconds())
}

// TimedOut counts a consolidation decision that exceeded its time.
func (m *Metrics) TimedOut(consolidationType string) {
	m.timeouts.WithLabelValues(consolidationType).Inc()
}

// verdict returns Karpenter's label value.
func verdict(approved bool) string {
	if approved {
		return "approved"
	}
	return "rejected"
}

// Judged counts a move by a NodePool that would lose nodes.
func (m *Metrics) Judged(approved bool, pool, policy string) {
	m.moves.WithLabelValues(verdict(approved), pool, policy).Inc()
}

// Scored records the score of a move in a NodePool with consolidationPolicy Balanced.
func (m *Metrics) Scored(approved bool, pool, policy string, score float64) {
	m.score.WithLabelValues(verdict(approved), pool, policy).Observe(score)
}

// budgets reports the ledger's state at each scrape.
type budgets struct {
	ledger             *budget.Ledger
	leading            func() bool
	allowed, consuming *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (b *budgets) Describe(to chan<- *prometheus.Desc) {
	to <- b.allowed
	to <- b.consuming
}

// Collect implements prometheus.Collector.
func (b *budgets) Collect(to chan<- prometheus.Metric) {
	if !b.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	list, err := b.ledger.Standings(ctx)
	if err != nil {
		klog.Background().V(2).Info("Budgets are not reported: the cache is not filled yet", "err", err)
		return
	}
	for _, s := range list {
		to <- prometheus.MustNewConstMetric(b.allowed, prometheus.GaugeValue, float64(s.Allowed), s.NodePool, string(s.Reason))
		to <- prometheus.MustNewConstMetric(b.consuming, prometheus.GaugeValue, float64(s.Consuming), s.NodePool, string(s.Reason))
	}
}

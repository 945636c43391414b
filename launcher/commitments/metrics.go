package commitments

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/launcher/billing"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// collector computes the metrics at each scrape.
type collector struct {
	of                                      *Commitments
	amount, left, used, unreadable, account *prometheus.Desc
}

func newMetrics(c *Commitments) *collector {
	labels := []string{"commitment", "kind", "unit"}
	return &collector{
		of:         c,
		amount:     prometheus.NewDesc("slipway_commitment_amount", "What this cluster may use of a Savings Plan or of Reserved Instances, by its unit: USD per hour, normalized units or instances.", labels, nil),
		left:       prometheus.NewDesc("slipway_commitment_left", "What no node of the cluster uses of a commitment.", labels, nil),
		used:       prometheus.NewDesc("slipway_commitment_used_ratio", "The share of a commitment that nodes of the cluster use, 0 to 1.", labels, nil),
		unreadable: prometheus.NewDesc("slipway_commitments_unreadable", "1 while the ConfigMap with the commitments cannot be read: the last ones stay in use.", nil, nil),
		account:    prometheus.NewDesc("slipway_commitments_aws_unreadable", "1 while the commitments of the AWS account cannot be read: the last ones stay in use. Without a value if they are not asked for.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.amount, m.left, m.used, m.unreadable, m.account} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *collector) Collect(out chan<- prometheus.Metric) {
	if !m.of.config.Leading() {
		return
	}
	configMap, account := m.of.unread()
	out <- prometheus.MustNewConstMetric(m.unreadable, prometheus.GaugeValue, configMap)
	if m.of.config.Account != nil {
		out <- prometheus.MustNewConstMetric(m.account, prometheus.GaugeValue, account)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, u := range m.of.uses(ctx) {
		labels := []string{u.ID, string(u.Kind), u.Unit}
		out <- prometheus.MustNewConstMetric(m.amount, prometheus.GaugeValue, u.Amount, labels...)
		out <- prometheus.MustNewConstMetric(m.left, prometheus.GaugeValue, u.Left, labels...)
		out <- prometheus.MustNewConstMetric(m.used, prometheus.GaugeValue, u.Used(), labels...)
	}
}

// unread returns 1 for what cannot be read, and 0 for what can.
func (c *Commitments) unread() (configMap, account float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem != "" {
		configMap = 1
	}
	if c.accountProblem != "" {
		account = 1
	}
	return configMap, account
}

// uses returns how much of each commitment is used; none if the cache cannot be read.
func (c *Commitments) uses(ctx context.Context) []catalog.CommitmentUse {
	list := c.List()
	if len(list) == 0 {
		return nil
	}
	claims, nodes, err := index.List(c.config.Client).Fleet(ctx)
	if err != nil {
		return nil // The cache is not filled yet.
	}
	state := catalog.State{Commitments: list, InstanceTypes: c.config.Types(ctx)}
	return state.CommitmentUses(billing.Billed(claims, nodes))
}

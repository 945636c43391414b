package gauges

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// family is one gauge, with a series for each combination of the values of its labels.
type family struct {
	desc   *prometheus.Desc
	labels []string
	// byName are the positions of the labels in the order of their names, which a registry wants.
	byName []int
}

func newFamily(name, help string, labels ...string) family {
	out := family{desc: prometheus.NewDesc(name, help, labels, nil), labels: slices.Clone(labels)}
	for i := range labels {
		out.byName = append(out.byName, i)
	}
	slices.SortFunc(out.byName, func(a, b int) int { return strings.Compare(labels[a], labels[b]) })
	return out
}

// collection writes the series of one scrape, which share equal label pairs: with 5,000 nodes and 50,000 pods there are two million pairs of
// 60,000 values, and client_golang makes each of its own.
type collection struct {
	to    chan<- prometheus.Metric
	pairs map[pair]*dto.LabelPair
}

// pair is the name and the value of a label.
type pair struct{ name, value string }

func newCollection(to chan<- prometheus.Metric) collection {
	return collection{to: to, pairs: map[pair]*dto.LabelPair{}}
}

// gauge writes a series with one value for each label of the family, of bounded length: users, kubelets and agents write them. A value that is not
// UTF-8 would make client_golang refuse the whole scrape.
func (c collection) gauge(of family, value float64, labels ...string) {
	s := &series{desc: of.desc, value: value, labels: make([]*dto.LabelPair, len(of.byName))}
	for i, at := range of.byName {
		s.labels[i] = c.pair(of.labels[at], bounded(labels[at]))
	}
	c.to <- s
}

func (c collection) pair(name, value string) *dto.LabelPair {
	if have, ok := c.pairs[pair{name, value}]; ok {
		return have
	}
	key := &pair{name, value}
	out := &dto.LabelPair{Name: &key.name, Value: &key.value}
	c.pairs[*key] = out
	return out
}

// series is a prometheus.Metric: a gauge with its labels, which are shared with other series.
type series struct {
	desc   *prometheus.Desc
	value  float64
	labels []*dto.LabelPair
}

// Desc implements prometheus.Metric.
func (s *series) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *series) Write(out *dto.Metric) error {
	out.Label, out.Gauge = s.labels, &dto.Gauge{Value: &s.value}
	return nil
}

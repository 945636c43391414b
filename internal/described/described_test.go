package described_test

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-k8s/slipway/internal/described"
)

func TestRowsAreThoseOfTheDocument(t *testing.T) {
	r := &described.Registerer{}
	r.MustRegister(
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "b", Help: "What b is."}),
		prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "What h is."}),
		prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "i", Help: "What i is."}, []string{"x"}),
		prometheus.NewSummary(prometheus.SummaryOpts{Name: "s", Help: "What s is."}),
		prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "t", Help: "What t is."}, []string{"x"}),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "n", Help: "What n is."}),
		prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "a", Name: "c", Help: `What "c" is.`}, []string{"x", "y"}),
	)
	const document = "# Metrics\n\n## One\n| `z` | | | |\n\n## Two\n\n| name | type | labels | meaning |\n|---|---|---|---|\n" +
		"| `a_c` | counter | x, y | What \"c\" is. |\n| `b` | gauge |  | What b is. |\n| `h` | histogram |  | What h is. |\n" +
		"| `i` | histogram | x | What i is. |\n| `n` | counter |  | What n is. |\n| `s` | summary |  | What s is. |\n" +
		"| `t` | summary | x | What t is. |\n\n## Three\n| `d` | | | |\n"
	if got, want := r.Rows(), described.Section(document, "## Two"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

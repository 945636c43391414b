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
		prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "a", Name: "c", Help: `What "c" is.`}, []string{"x", "y"}),
	)
	const document = "# Metrics\n\n## One\n| `z` | | |\n\n## Two\n\n| name | labels | meaning |\n|---|---|---|\n" +
		"| `a_c` | x, y | What \"c\" is. |\n| `b` |  | What b is. |\n\n## Three\n| `d` | | |\n"
	if got, want := r.Rows(), described.Section(document, "## Two"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

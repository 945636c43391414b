package walk_test

import (
	"fmt"
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// figures are the resources that a process uses.
type figures struct {
	goroutines float64
	// heapMB is the live heap at the last garbage collection. The size between two collections depends on the moment.
	heapMB float64
	// collected is the time of that collection, in seconds since 1970.
	collected float64
	// residentMB is the resident memory of the process.
	residentMB float64
}

func (f figures) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f MB of live heap, %.0f MB resident", f.goroutines, f.heapMB, f.residentMB)
}

// figuresOf reads a process's metrics.
func (s *scene) figuresOf(process string) (figures, error) {
	families, err := s.metricsOf(process)
	if err != nil {
		return figures{}, err
	}
	gauge := func(name string) float64 {
		if f := families[name]; f != nil && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
		return -1
	}
	const mb = 1 << 20
	// Without GOGC, the next collection starts when the heap is twice the live heap of the last one.
	return figures{
		goroutines: gauge("go_goroutines"), heapMB: gauge("go_memstats_next_gc_bytes") / 2 / mb,
		collected: gauge("go_memstats_last_gc_time_seconds"), residentMB: gauge("process_resident_memory_bytes") / mb,
	}, nil
}

func (s *scene) metricsOf(process string) (map[string]*dto.MetricFamily, error) {
	url, client := s.LauncherURL("/metrics"), http.DefaultClient
	if process == sandbox.Scheduler {
		config := rest.CopyConfig(s.RESTConfig())
		// Its certificate is self-signed.
		config.CAData, config.Insecure = nil, true
		transport, err := rest.TransportFor(config)
		if err != nil {
			return nil, err
		}
		url, client = s.SchedulerMetricsURL(), &http.Client{Transport: transport}
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// check compares the figures at the end with earlier ones: a little more is noise, growth is a leak.
func (f figures) check(tb testing.TB, process string, before figures) {
	tb.Helper()
	if f.goroutines < 1 || f.heapMB <= 0 {
		tb.Errorf("%s tells no figures: %+v", process, f)
	}
	if f.goroutines > 1.2*before.goroutines+30 {
		tb.Errorf("%s: %.0f goroutines became %.0f", process, before.goroutines, f.goroutines)
	}
	if f.heapMB > 1.3*before.heapMB+8 {
		tb.Errorf("%s: %.0f MB of live heap became %.0f", process, before.heapMB, f.heapMB)
	}
}

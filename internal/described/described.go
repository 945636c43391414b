// Package described collects the metrics that a program registers, including those without a value yet, and writes them as the table of
// docs/metrics.md, so that a test can compare the two.
package described

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Registerer is a prometheus.Registerer that only records what is registered.
type Registerer struct {
	mu   sync.Mutex
	rows map[string]string
}

var _ prometheus.Registerer = (*Registerer)(nil)

// desc matches the text of a prometheus.Desc; it has no other way to read its parts.
var desc = regexp.MustCompile(`^Desc{fqName: "([^"]*)", help: "(.*)", constLabels: {.*}, variableLabels: {(.*)}}$`)

// Register implements prometheus.Registerer.
func (r *Registerer) Register(c prometheus.Collector) error {
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		c.Describe(all)
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil {
		r.rows = map[string]string{}
	}
	var unread error
	for d := range all {
		parts := desc.FindStringSubmatch(d.String())
		if parts == nil {
			unread = fmt.Errorf("unreadable metric %s", d)
			continue
		}
		r.rows[parts[1]] = fmt.Sprintf("| `%s` | %s | %s | %s |", parts[1], kind(c), strings.ReplaceAll(parts[3], ",", ", "), strings.ReplaceAll(parts[2], `\"`, `"`))
	}
	return unread
}

// kind returns the type of a collector's metrics. Collectors of this project compute gauges at each scrape; counters and histograms are the
// library's types, whose exported interfaces do not differ.
func kind(c prometheus.Collector) string {
	name := strings.ToLower(fmt.Sprintf("%T", c))
	for _, kind := range []string{"counter", "histogram", "summary"} {
		if strings.HasPrefix(name, "*prometheus.") && strings.Contains(name, kind) {
			return kind
		}
	}
	return "gauge"
}

// MustRegister implements prometheus.Registerer.
func (r *Registerer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r *Registerer) Unregister(prometheus.Collector) bool { return false }

// Rows returns the rows of the table, in the order of their names.
func (r *Registerer) Rows() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, row := range r.rows {
		out = append(out, row)
	}
	slices.Sort(out)
	return out
}

// Section returns the rows of the table below a heading of a document.
func Section(document, heading string) []string {
	_, rest, _ := strings.Cut(document, "\n"+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	var out []string
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "| `") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

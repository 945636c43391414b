package manifests_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// types are the metrics of docs/metrics.md by name: counter, gauge, histogram or summary. Tests of both binaries hold that page against
// what they register.
func types(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram|summary) \\|")
	for _, cells := range row.FindAllStringSubmatch(read(t, "../docs/metrics.md"), -1) {
		out[cells[1]] = cells[2]
	}
	if len(out) < 80 {
		t.Fatalf("docs/metrics.md has %d metrics with a type", len(out))
	}
	return out
}

// queried returns why a series of this name is not there; empty if it is. A histogram has the series _bucket, _sum and _count, a summary
// has _sum, _count and one for each quantile under its own name.
func queried(series string, types map[string]string) string {
	switch types[series] {
	case "counter", "gauge", "summary":
		return ""
	case "histogram":
		return "a histogram has no series of its own name"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, found := strings.CutSuffix(series, suffix)
		kind := types[base]
		switch {
		case !found || kind == "":
		case kind == "histogram", kind == "summary" && suffix != "_bucket":
			return ""
		default:
			return "a " + kind + " has no series " + suffix
		}
	}
	return "no binary registers it"
}

// alert is one of monitoring/rules.yaml.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var rules struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "monitoring/rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	var out []alert
	for _, group := range rules.Groups {
		out = append(out, group.Rules...)
	}
	return out
}

// expressions are all queries of the dashboard and of the alerts, by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "monitoring/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for i, target := range panel.Targets {
			out["panel "+panel.Title+" "+strconv.Itoa(i)] = target.Expr
		}
	}
	for _, rule := range alerts(t) {
		out["alert "+rule.Alert] = rule.Expr
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("alert %s says not how bad it is, what, and what to do: %+v", rule.Alert, rule)
		}
	}
	return out
}

func TestQueriesNameMetricsThatExist(t *testing.T) {
	metricTypes := types(t)
	// kube-scheduler's own.
	stock := []string{"scheduler_pending_pods"}
	name := regexp.MustCompile(`\b(?:slipway|karpenter|scheduler|controller_runtime|workqueue)_[a-z0-9_]+`)
	total := 0
	all := expressions(t)
	for _, where := range slices.Sorted(maps.Keys(all)) {
		metrics := name.FindAllString(all[where], -1)
		if len(metrics) == 0 {
			t.Errorf("%s names no metric: %s", where, all[where])
		}
		for _, metric := range metrics {
			total++
			if why := queried(metric, metricTypes); why != "" && !slices.Contains(stock, metric) {
				t.Errorf("%s: %s: %s", where, metric, why)
			}
		}
		if strings.Count(all[where], "(") != strings.Count(all[where], ")") {
			t.Errorf("%s: %s", where, all[where])
		}
	}
	if total < 20 {
		t.Errorf("%d metrics were found", total)
	}
}

func TestSeriesThatAreNotThereAreFound(t *testing.T) {
	types := map[string]string{"a_total": "counter", "nodes_count": "gauge", "h_seconds": "histogram", "s_seconds": "summary"}
	for series, there := range map[string]bool{
		"a_total": true, "nodes_count": true, "h_seconds_bucket": true, "h_seconds_sum": true, "h_seconds_count": true, "s_seconds": true,
		"s_seconds_sum": true, "s_seconds_count": true,
		"s_seconds_bucket": false, "h_seconds": false, "a_total_sum": false, "nodes": false, "other": false,
	} {
		if why := queried(series, types); (why == "") != there {
			t.Errorf("%s: %q", series, why)
		}
	}
}

// labels are the labels of the metrics of docs/metrics.md by name.
func labels(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:counter|gauge|histogram|summary) \\| ([^|]*) \\|")
	for _, cells := range row.FindAllStringSubmatch(read(t, "../docs/metrics.md"), -1) {
		for label := range strings.SplitSeq(cells[2], ",") {
			out[cells[1]] = append(out[cells[1]], strings.TrimSpace(label))
		}
	}
	return out
}

// An alert that sums by a label, selects by it or names it has metrics with that label, and names no label that its sum drops.
func TestAlertsNameLabelsThatExist(t *testing.T) {
	known := labels(t)
	metric := regexp.MustCompile(`\b(slipway_[a-z0-9_]+?)(?:_bucket)?(?:\{([a-z]+)[^}]*\})?[^a-z0-9_{]`)
	by, named := regexp.MustCompile(`by \(([^)]*)\)`), regexp.MustCompile(`\$labels\.([a-z]+)`)
	sums := 0
	for _, r := range alerts(t) {
		var kept []string
		for _, group := range by.FindAllStringSubmatch(r.Expr, -1) {
			sums++
			for label := range strings.SplitSeq(group[1], ",") {
				kept = append(kept, strings.TrimSpace(label))
			}
		}
		for _, m := range metric.FindAllStringSubmatch(r.Expr+" ", -1) {
			wanted := kept
			if m[2] != "" {
				wanted = append(slices.Clone(kept), m[2])
			}
			for _, label := range wanted {
				if label != "le" && !slices.Contains(known[m[1]], label) {
					t.Errorf("alert %s: metric %s has the labels %v, not %s", r.Alert, m[1], known[m[1]], label)
				}
			}
		}
		for _, label := range named.FindAllStringSubmatch(r.Annotations["summary"]+r.Annotations["description"], -1) {
			if !slices.Contains(kept, label[1]) {
				t.Errorf("alert %s names the label %s, its expression keeps %v", r.Alert, label[1], kept)
			}
		}
	}
	if sums < 8 {
		t.Errorf("%d sums by labels were found", sums)
	}
}

// Launches that fail and launches that are refused differ in what an operator does, which the error code says.
func TestAlertsOfLaunchesNameTheErrorCode(t *testing.T) {
	found := 0
	for _, r := range alerts(t) {
		if r.Alert != "SlipwayLaunchesFail" && r.Alert != "SlipwayLaunchRefused" {
			continue
		}
		found++
		if !strings.Contains(r.Expr, "by (code)") || !strings.Contains(r.Annotations["summary"], "{{ $labels.code }}") {
			t.Errorf("alert %s does not name the error code: %s: %s", r.Alert, r.Expr, r.Annotations["summary"])
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 alerts", found)
	}
}

// A sum of nothing is nothing, and nothing plus a number is nothing as well: each operand of a sum of sums has a value without series.
func TestAlertsAddNumbers(t *testing.T) {
	operand := regexp.MustCompile(`^\(.* or vector\(0\)\)`)
	found := 0
	for _, r := range alerts(t) {
		parts := strings.Split(r.Expr, " + ")
		for _, part := range parts[1:] {
			found++
			for _, side := range []string{parts[0], part} {
				if !operand.MatchString(side) {
					t.Errorf("alert %s: %s has no value where there is no series", r.Alert, side)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no alert adds")
	}
}

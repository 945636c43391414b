package cases_test

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/schedulerperf/cases"
)

const file = `
- name: Basic
  featureGates: {A: true}
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  workloads:
  - name: old
    featureGates: {SchedulerQueueingHints: false}
    params: {nodes: 5}
  - name: 5000Nodes
    labels: [performance, short]
    featureGates: {SchedulerQueueingHints: true}
    threshold: {misc: 270, other: 3}
    params: {nodes: 5000}
- name: Other
  schedulerConfigPath: own.yaml
  workloads:
  - name: 5000Nodes
    threshold: 20
`

func read(t *testing.T) []cases.Case {
	t.Helper()
	all, err := cases.Read("misc", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A workload becomes a file of its own, with all of its case and nothing of the others.
func TestConfig(t *testing.T) {
	picked := cases.Pick(read(t), regexp.MustCompile("^Basic$"), regexp.MustCompile("."))
	if len(picked) != 1 || picked[0].Workload != "5000Nodes" || picked[0].Threshold != 270 {
		t.Fatalf("picked %+v, want Basic/5000Nodes with its threshold of 270: the other emulates an older version", picked)
	}
	text, err := picked[0].Config("/tmp/profile.yaml", true)
	if err != nil {
		t.Fatal(err)
	}
	want := `- featureGates:
    A: true
  name: Basic
  schedulerConfigPath: /tmp/profile.yaml
  workloadTemplate:
  - countParam: $nodes
    opcode: createNodes
  workloads:
  - featureGates:
      A: true
      OpportunisticBatching: true
      SchedulerQueueingHints: true
    labels:
    - performance
    name: 5000Nodes
    params:
      nodes: 5000
`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	text, err = cases.Pick(read(t), regexp.MustCompile("^Other$"), regexp.MustCompile("."))[0].Config("", false)
	if err != nil {
		t.Fatal(err)
	}
	var docs []map[string]any
	if err := yaml.Unmarshal(text, &docs); err != nil || docs[0]["schedulerConfigPath"] != "own.yaml" || strings.Contains(string(text), "Opportunistic") {
		t.Errorf("the case's own profile: got\n%s, error %v", text, err)
	}
}

func TestBadFile(t *testing.T) {
	for _, text := range []string{"a: b", "- name: x\n  workloads: [5]"} {
		if _, err := cases.Read("misc", []byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestMeasured(t *testing.T) {
	got, err := cases.Measured([]byte(`{"dataItems": [
		{"data": {"Average": 300, "Perc50": 310, "Perc99": 400}, "labels": {"Metric": "SchedulingThroughput"}},
		{"data": {"Perc50": 1, "Perc99": 2}, "labels": {"Metric": "scheduler_scheduling_attempt_duration_seconds", "result": "scheduled"}},
		{"data": {"Perc50": 7, "Perc99": 8}, "labels": {"Metric": "scheduler_scheduling_attempt_duration_seconds", "result": "unschedulable"}}]}`))
	if want := (cases.Figures{Average: 300, P50: 310, P99: 400, AttemptP50: 1, AttemptP99: 2}); err != nil || got != want {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	if got, err = cases.Measured([]byte(`{"dataItems": [{"data": null, "labels": {"Metric": "SchedulingThroughput"}}]}`)); err != nil || !math.IsNaN(got.Average) {
		t.Errorf("done within a second: got %+v, error %v, want no average", got, err)
	}
	if _, err = cases.Measured([]byte("x")); err == nil {
		t.Error("x was read")
	}
}

// The median of the rounds' ratios is judged, not one round; then the threshold, where stock reaches it.
func TestWrong(t *testing.T) {
	rounds := func(pairs ...float64) (out []cases.Round) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, cases.Round{Stock: cases.Figures{Average: pairs[i]}, Slipway: cases.Figures{Average: pairs[i+1]}})
		}
		return out
	}
	for _, c := range []struct {
		name      string
		threshold float64
		rounds    []cases.Round
		want      string
	}{
		{"one bad round of three", 0, rounds(100, 50, 100, 101, 100, 99), ""},
		{"two of three", 0, rounds(100, 50, 100, 80, 100, 99), "0.80 times"},
		{"below the threshold that stock reaches", 100, rounds(101, 99), "below Kubernetes' threshold of 100"},
		{"below the threshold with stock", 100, rounds(99, 98), ""},
		{"done within a second", 100, rounds(math.NaN(), 98), ""},
	} {
		got := cases.Compared{Case: cases.Case{Name: "A", Workload: "w", Threshold: c.threshold}, Rounds: c.rounds}.Wrong()
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	table := cases.Table([]cases.Compared{{Case: cases.Case{Name: "A", Workload: "w", Threshold: 100}, Rounds: rounds(101, 99)}})
	if !strings.Contains(table, "| A | w | 101 | 99 | 0.98 | 100 | yes, no |") {
		t.Errorf("table:\n%s", table)
	}
}
